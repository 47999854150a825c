"""Verdicts against content: what a toy pair's responses really attended over, whatever the traffic, faults and losses.

Truth is the content of the decode pool at each response's first decode step (tests/support/toy_pair.py). The number of
examples is the profile's: few here, many with HYPOTHESIS_PROFILE=thorough, as `make test-slow` runs them.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.queries import Queries
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from tests.support.otlp import Fact
from tests.support.toy_pair import Ask, Read, ToyPair

Post = Callable[[list[Fact]], None]
TENANTS = {name: (name * 32)[:32] for name in ("a", "b", "c", "d")}
FAULTS = st.sampled_from(["none", "none", "none", "lost_chunk", "refused_landed", "refused_lost"])
ASKS = st.lists(
    st.tuples(st.sampled_from(sorted(TENANTS)), st.integers(1, 56), st.integers(1, 12), FAULTS), min_size=1, max_size=14
)
FIXTURES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def play(asks: list[tuple[str, int, int, str]], seed: int, lifo: bool, vulnerable: bool) -> ToyPair:
    pair = ToyPair(uuid.uuid4().hex, lifo=lifo, vulnerable=vulnerable)
    made = [
        Ask(f"r{i}", TENANTS[tenant], prompt, output, fault) for i, (tenant, prompt, output, fault) in enumerate(asks)
    ]
    pair.run(made, random.Random(seed))
    pair.close()
    return pair


def judge(store: Queries, pair: ToyPair) -> dict[str, dict[str, Any]]:
    Runner(store, DetectionSettings()).run_once()
    rows = store.rows(
        "SELECT * FROM responses WHERE response_uid IN {uids:Array(String)}", {"uids": list(pair.uids.values())}
    )
    return {row["response_uid"]: row for row in rows}


def owners(store: Queries, read: Read) -> dict[tuple[int, int], dict[str, Any]]:
    """What the answer says of each slot that the response read and did not own."""
    ranges = store.rows("SELECT * FROM foreign_ranges WHERE response_uid = {uid:String}", {"uid": read.uid})
    return {(part["page"], slot): part for part in ranges for slot in range(part["slot_start"], part["slot_end"])}


@FIXTURES
@given(asks=ASKS, seed=st.integers(0, 99), lifo=st.booleans(), vulnerable=st.booleans())
def test_with_all_evidence_every_verdict_and_every_slot_is_the_content_truth(
    store: Queries, post: Post, asks: list[tuple[str, int, int, str]], seed: int, lifo: bool, vulnerable: bool
) -> None:
    pair = play(asks, seed, lifo, vulnerable)
    post(pair.facts)
    hold_against_content(store, asks, pair)


def hold_against_content(store: Queries, asks: list[tuple[str, int, int, str]], pair: ToyPair) -> None:
    """With all evidence there: every verdict, and the owner of every foreign slot, are those of the content."""
    verdicts = judge(store, pair)
    rids = {fact.uid: fact.attributes["pagewitness.rid"] for fact in pair.facts if "pagewitness.rid" in fact.attributes}
    names = {rids[uid]: name for name, uid in pair.uids.items()}
    for name, uid in pair.uids.items():
        read = pair.truth.get(name, Read(name, uid, {}))
        assert verdicts[uid]["verdict"] == ("violation" if read.foreign else "clean"), (name, verdicts[uid])
        said = owners(store, read)
        assert said.keys() == read.foreign.keys()
        for where, owner in read.foreign.items():
            part = said[where]
            if part["scope"] == "unattributed":
                assert left_by_an_unseen_transfer(asks, pair, owner)
            else:
                assert (names[part["donor_rid"]] if part["donor_rid"] else None) == owner, (name, where, part)


def left_by_an_unseen_transfer(asks: list[tuple[str, int, int, str]], pair: ToyPair, owner: str | None) -> bool:
    """Only where some request's transfer was queued and never committed may an answer say that it does not know."""
    return any(fault.startswith("refused") for _, _, _, fault in asks)


@FIXTURES
@given(data=st.data(), asks=ASKS, seed=st.integers(0, 99), lifo=st.booleans())
def test_whatever_is_lost_nothing_affected_is_called_clean_and_no_owner_is_wrong(
    store: Queries, post: Post, data: st.DataObject, asks: list[tuple[str, int, int, str]], seed: int, lifo: bool
) -> None:
    pair = play(asks, seed, lifo, vulnerable=True)
    lost = data.draw(st.sets(st.integers(0, len(pair.facts) - 1), max_size=6))
    post([fact for index, fact in enumerate(pair.facts) if index not in lost])
    verdicts = judge(store, pair)
    rids = {fact.uid: fact.attributes["pagewitness.rid"] for fact in pair.facts if "pagewitness.rid" in fact.attributes}
    names = {rids[uid]: name for name, uid in pair.uids.items()}
    for name, read in pair.truth.items():
        verdict = verdicts.get(read.uid, {"verdict": "never seen"})["verdict"]
        assert not (read.foreign and verdict == "clean"), (name, verdicts[read.uid])
        assert not (not read.foreign and verdict == "violation"), (name, verdicts[read.uid])
        for where, part in owners(store, read).items():
            if part["donor_rid"]:
                assert names[part["donor_rid"]] == read.foreign[where], (name, where, part)
            elif part["scope"] == "no_writer":
                assert read.foreign[where] is None


@FIXTURES
@given(data=st.data(), asks=ASKS, seed=st.integers(0, 99))
def test_losing_any_one_fact_of_a_leg_makes_clean_unknown_and_leaves_a_violation(
    store: Queries, post: Post, data: st.DataObject, asks: list[tuple[str, int, int, str]], seed: int
) -> None:
    pair = play(asks, seed, lifo=False, vulnerable=True)
    whole = {name: "violation" if read.foreign else "clean" for name, read in pair.truth.items()}
    legs = [fact for fact in pair.facts if "pagewitness.leg.ordinal" in fact.attributes]
    lost = data.draw(st.sampled_from(legs))
    post([fact for fact in pair.facts if fact is not lost])
    verdicts = judge(store, pair)
    partner = {read.uid: name for name, read in pair.truth.items()}
    rid_of = {
        fact.uid: fact.attributes["pagewitness.rid"] for fact in pair.facts if "pagewitness.rid" in fact.attributes
    }
    for uid, name in partner.items():
        hit = rid_of[lost.uid] == rid_of[uid]
        expected = "unknown" if hit and whole[name] == "clean" else whole[name]
        assert verdicts[uid]["verdict"] == expected, (name, lost.span, verdicts[uid])


def test_the_toy_really_reads_what_others_left() -> None:
    """The harness can fail: a prompt that is too long reads pages that earlier requests had filled."""
    pair = play([("a", 40, 8, "none"), ("b", 40, 8, "none"), ("c", 52, 4, "none")], 1, lifo=False, vulnerable=True)
    foreign = pair.truth["r2"].foreign
    assert len(foreign) == 51  # all of its prompt but the placeholder
    assert set(foreign.values()) <= {"r0", "r1", None}
