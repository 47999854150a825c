"""A response whose decode leg was lost is still a response: it counts once, as its own tenant's, and is never clean."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.store import Store
from detectors.clocks import Clocks
from detectors.joins import join_legs
from detectors.legs import Leg
from detectors.orphans import orphans
from detectors.queries import Queries
from tests.detectors.test_hostile_identities import ASKS, FIXTURES, Post, judge, partner, play
from tests.detectors.test_runner import run
from tests.support.cases import load_case
from tests.support.legs import START, leg
from tests.support.otlp import export
from tests.support.toy_rooms import RoomyPair

CLOCKS = Clocks(None, timedelta(seconds=0.5))
OTHER = {"tenant": "bb" * 16}


def decode(name: str, second: int, **given: Any) -> Leg:
    """A decode leg that lived for a second."""
    return lived(leg(name, rooms=(7,), emitter="host1/decode"), second, given)


def prefill(name: str, second: int, **given: Any) -> Leg:
    """A prefill leg that lived for a second."""
    return lived(leg(name, rooms=(7,), emitter="host2/prefill"), second, given)


def lived(leg: Leg, second: int, given: dict[str, Any]) -> Leg:
    start, end = (START + timedelta(seconds=at) for at in (second, second + 1))
    seqs = {"first_seq": 10 * second + 1, "last_seq": 10 * second + 8}
    return replace(leg, started=start, ended=end, last_time=end, **({"end_state": "finished"} | seqs | given))


def left_over(decodes: list[Leg], prefills: list[Leg]) -> set[str]:
    return orphans(join_legs(decodes, prefills, CLOCKS), prefills, CLOCKS)


def test_a_prefill_leg_that_is_joined_is_accounted_for() -> None:
    assert left_over([decode("d", 0)], [prefill("p", 0)]) == set()


def test_one_alone_in_its_room_is_not() -> None:
    assert left_over([], [prefill("p", 0)]) == {"p"}


def test_the_next_request_of_its_room_does_not_account_for_it() -> None:
    sent = {"session": "s", "destination": "x"}
    reserved = {"session": "s", "destination": "y"}
    assert left_over([decode("d", 9, **reserved)], [prefill("p", 0, **sent), prefill("q", 9, **reserved)]) == {"p"}


def test_of_two_that_cannot_be_told_apart_one_decode_leg_accounts_for_one() -> None:
    assert len(left_over([decode("d", 0)], [prefill("p", 0), prefill("q", 0)])) == 1


def test_legs_of_one_request_account_for_each_other_wherever_the_room_had_them_send_to() -> None:
    decodes = [decode("d", 0, rid="r", session="s", destination="x")]
    prefills = [prefill("p", 0, rid="r", session="s", destination="y")]
    assert left_over(decodes, prefills) == set()


def test_another_tenants_decode_leg_accounts_for_nothing() -> None:
    assert left_over([decode("d", 0, **OTHER)], [prefill("p", 0)]) == {"p"}


def test_a_decode_leg_that_was_over_before_it_began_accounts_for_nothing() -> None:
    assert left_over([decode("d", 0)], [prefill("p", 9)]) == {"p"}


def test_where_pairing_is_possible_at_all_nobody_is_left_over() -> None:
    """Taking the first that fits would leave one over: only the first decode leg can be the second prefill leg's."""
    decodes = [
        decode("early", 0, session="s", destination="x"),
        decode("late", 0, session="s"),
    ]
    prefills = [prefill("either", 0), prefill("only-early", 0, session="s", destination="x")]
    assert left_over(decodes, prefills) == set()


def test_an_attempt_that_the_engine_gave_up_is_its_next_attempts_response() -> None:
    given_up, again = prefill("p", 0, rid="r", end_state="retracted"), prefill("q", 1, rid="r")
    assert left_over([], [given_up, again]) == {"q"}
    assert left_over([], [given_up]) == {"p"}


def test_the_ranks_of_a_leg_are_one_leg() -> None:
    first, second = prefill("p", 0), replace(prefill("p", 0), emitter="host2/prefill-1")
    assert left_over([], [first, second]) == {"p"}


def responses(store: Queries, pair: RoomyPair) -> list[dict[str, Any]]:
    """Every response that legs of the pair stand for."""
    uids = [*pair.uids.values(), *(partner(pair, uid) for uid in pair.uids.values())]
    return store.rows("SELECT * FROM responses WHERE response_uid IN {uids:Array(String)}", {"uids": uids})


@FIXTURES
@given(asks=ASKS, seed=st.integers(0, 999), data=st.data())
def test_whatever_rooms_clients_choose_no_response_vanishes_with_its_decode_leg(
    store: Queries, post: Post, asks: list[tuple[str, int, int, str, str, bool]], seed: int, data: st.DataObject
) -> None:
    pair = play(asks, seed)
    lost = data.draw(st.sets(st.sampled_from(sorted(pair.uids)), min_size=1))
    gone = {pair.uids[name] for name in lost}
    post([fact for fact in pair.facts if fact.uid not in gone])
    judge(store, pair)
    rows = responses(store, pair)
    counted = Counter(row["tenant"] for row in rows)
    asked = Counter(pair.tenants[name] for name in pair.uids)
    assert counted == asked, rows
    assert not [row for row in rows if row["verdict"] == "clean" and row["response_uid"] in gone]


BLIND = """
title: a request of which only a prefill node is known, which cannot see what it sends
source: docs/evidence.md
facts:
  - P config missing={missing}
  - p1 admission.admitted need=40
  - p1 release.immediate pages=5-7 written=0-40
  - p1 end.finished queued_pages=0 queued_tokens=0
expect:
  findings: []
  verdicts: {{}}
"""


@pytest.mark.parametrize(
    ("missing", "verdicts"),
    [("transfer.destination", ["unknown"]), ("transfer.queued", ["unknown"]), ("transfer.landed", [])],
)
def test_where_a_node_cannot_see_what_it_sends_no_request_passes_for_a_health_check(
    opened: Store, tmp_path: Path, missing: str, verdicts: list[str]
) -> None:
    """Else a request whose decode leg was lost would be no response at all."""
    path = tmp_path / "case.yaml"
    path.write_text(BLIND.format(missing=missing))
    case = load_case(path)
    opened.insert_otlp(export(*case.facts))
    store = opened.handle()  # its own: what others left open in a shared one would be waited for
    run(store)
    uids = {"uids": sorted({one.uid for one in case.facts if one.uid})}
    rows = store.rows("SELECT verdict FROM responses WHERE response_uid IN {uids:Array(String)}", uids)
    assert [row["verdict"] for row in rows] == verdicts
