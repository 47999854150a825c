"""Times of different hosts are compared by what their agents measured, and no closer than it allows."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detectors.clocks import Clocks, Shift
from detectors.queries import Queries
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from tests.support.cases import load_case
from tests.support.legs import START, leg
from tests.support.otlp import Fact, fact

Post = Callable[[list[Fact]], None]
RULES = Path(__file__).parents[2] / "detectors" / "rules"
UNKNOWN = timedelta(milliseconds=500)
MILLI = 1_000_000


@pytest.fixture(name="a")
def boot_a() -> str:
    return uuid.uuid4().hex


@pytest.fixture(name="b")
def boot_b() -> str:
    return uuid.uuid4().hex


def word(prefix: str, boot: str, offset_ms: int, error_ms: int, **given: Any) -> Fact:
    """An agent's word with a measurement of its host's clock, at START."""
    said: dict[str, Any] = {
        "subject_emitter": f"{prefix}/decode",
        "subject_boot": boot,
        "close": "clean",
        "drops": 0,
        "attested": 1,
    }
    return fact(
        "pagewitness.emitter",
        emitter=f"{prefix}/agent",
        boot=uuid.uuid4().hex,
        time_ns=int(START.timestamp() * 1e9),
        clock_offset=offset_ms * MILLI,
        clock_error=error_ms * MILLI,
        **(said | given),
    )


def milliseconds(shift: Shift | None) -> tuple[float, float] | None:
    if shift is None:
        return None
    return (round(shift.low / timedelta(milliseconds=1), 1), round(shift.high / timedelta(milliseconds=1), 1))


def test_a_measurement_bounds_what_to_add_to_a_hosts_times(a: str, store: Queries, post: Post) -> None:
    post([word("a", a, 2000, 3)])
    clocks = Clocks(store, UNKNOWN)
    assert milliseconds(clocks.to_receiver("a/decode", a, START)) == (1997, 2003)


def test_measurements_that_differ_are_all_believed(a: str, store: Queries, post: Post) -> None:
    post([word("a", a, 2000, 3), word("a", a, 1990, 1)])
    assert milliseconds(Clocks(store, UNKNOWN).to_receiver("a/decode", a, START)) == (1989, 2003)


def test_a_measurement_is_of_its_time(a: str, store: Queries, post: Post) -> None:
    post([word("a", a, 2000, 3)])
    clocks = Clocks(store, UNKNOWN)
    assert clocks.measured("a/decode", a, START + timedelta(hours=1)) is not None
    assert clocks.measured("a/decode", a, START + timedelta(hours=5)) is None


def test_between_two_hosts_the_errors_add_up(a: str, b: str, store: Queries, post: Post) -> None:
    post([word("a", a, 2000, 3), word("b", b, -500, 2)])
    one, other = leg("p", emitter="a/decode", boot=a), leg("d", emitter="b/decode", boot=b)
    assert milliseconds(Clocks(store, UNKNOWN).between(one, other, START)) == (2495, 2505)


def test_boots_that_one_agent_drained_share_a_clock_whatever_it_shows(
    a: str, b: str, store: Queries, post: Post
) -> None:
    agent = uuid.uuid4().hex
    beats = [word("a", boot, 2000, 300, subject_emitter=f"a/{node}") for node, boot in (("p", a), ("d", b))]
    post([replace(beat.but(extra={"pagewitness.seq": n}), boot=agent) for n, beat in enumerate(beats, 1)])
    one, other = leg("p", emitter="a/p", boot=a), leg("d", emitter="a/d", boot=b)
    clocks = Clocks(store, UNKNOWN)
    assert clocks.between(one, other, START) == Shift(timedelta(0), timedelta(0))
    assert milliseconds(clocks.to_receiver("a/p", a, START)) == (1700, 2300)


def test_where_nobody_measured_the_setting_holds() -> None:
    one, other = leg("p", emitter="a/decode"), leg("d", emitter="b/decode")
    assert Clocks(None, UNKNOWN).between(one, other, START) == Shift(-UNKNOWN, UNKNOWN)


def test_two_legs_of_one_boot_share_a_clock() -> None:
    assert Clocks(None, UNKNOWN).between(leg("a"), leg("b"), START) == Shift(timedelta(0), timedelta(0))


@pytest.mark.parametrize("absurd", [{"offset_ms": 2**40, "error_ms": 1}, {"offset_ms": 0, "error_ms": 2**40}])
def test_a_clock_that_is_days_off_is_not_believed(a: str, store: Queries, post: Post, absurd: dict[str, int]) -> None:
    post([word("a", a, **absurd)])
    assert Clocks(store, UNKNOWN).measured("a/decode", a, START) is None


def test_an_agent_speaks_for_the_clock_of_its_own_host_only(b: str, store: Queries, post: Post) -> None:
    post([word("a", b, 2000, 3, subject_emitter="b/decode")])
    assert Clocks(store, UNKNOWN).measured("b/decode", b, START) is None


# ---------------------------------------------------------------------- verdicts with clocks that are off


def shifted(facts: list[Fact], emitter: str, seconds: float, *, measured: bool) -> list[Fact]:
    """The same story as a host would tell it whose clock is ahead by so much. Each agent says how its clock stands,
    or none does. The two nodes get an agent of their own each."""
    moved = []
    for one in facts:
        beat = one.span == "pagewitness.emitter"
        subject = one.attributes.get("pagewitness.subject.emitter", one.emitter)
        ahead = round(seconds * 1e9) if subject == emitter else 0
        given: dict[str, Any] = {}
        boot = hashlib.blake2b(f"{one.boot}{subject}".encode(), digest_size=16).hexdigest() if beat else one.boot
        if beat:
            given["pagewitness.attested"] = one.attributes["pagewitness.attested"] + ahead
            if measured:
                given |= {"pagewitness.clock.offset": -ahead, "pagewitness.clock.error": 5 * MILLI}
        changed = one.but(extra=given)
        moved.append(replace(changed, boot=boot, time_ns=one.time_ns + ahead))
    return moved


def judged(store: Queries, uid: str) -> tuple[str, frozenset[str]]:
    Runner(store, DetectionSettings()).run_once()
    (row,) = store.rows("SELECT verdict FROM responses WHERE response_uid = {uid:String}", {"uid": uid})
    rows = store.rows("SELECT rule, variant FROM findings WHERE response_uid = {uid:String}", {"uid": uid})
    return row["verdict"], frozenset(f"{found['rule']}.{found['variant']}" for found in rows)


NEARLY = RULES / "transfer_short" / "cases" / "gave_up_just_before_the_deadline.yaml"
STALLED = RULES / "transfer_short" / "cases" / "stalled_after_reject.yaml"
REUSED = RULES / "identity_reuse" / "cases" / "reuse_after_a_clean_close.yaml"


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("ahead", [-0.4, 0.4])
@pytest.mark.parametrize("node", ["prefill", "decode"])
def test_clocks_that_are_a_little_off_stall_nothing(
    store: Queries, post: Post, node: str, ahead: float, *, measured: bool
) -> None:
    case = load_case(NEARLY)
    post(shifted(case.facts, f"case/{node}", ahead, measured=measured))
    assert judged(store, case.uids["d1"]) == ("clean", frozenset())


@pytest.mark.parametrize("ahead", [-2, 2])
@pytest.mark.parametrize("node", ["prefill", "decode"])
def test_clocks_that_are_two_seconds_off_and_say_so_stall_nothing(
    store: Queries, post: Post, node: str, ahead: float
) -> None:
    case = load_case(NEARLY)
    post(shifted(case.facts, f"case/{node}", ahead, measured=True))
    assert judged(store, case.uids["d1"]) == ("clean", frozenset())


@pytest.mark.parametrize("ahead", [-2, 2])
@pytest.mark.parametrize("node", ["prefill", "decode"])
def test_what_has_stalled_is_found_whatever_the_clocks_say(store: Queries, post: Post, node: str, ahead: float) -> None:
    case = load_case(STALLED)
    post(shifted(case.facts, f"case/{node}", ahead, measured=True))
    assert "transfer_short.stalled" in judged(store, case.uids["d1"])[1]


@pytest.mark.parametrize("ahead", [-2, 2])
@pytest.mark.parametrize("node", ["prefill", "decode"])
def test_a_room_that_was_used_again_is_told_apart_across_clocks_that_are_known(
    store: Queries, post: Post, node: str, ahead: float
) -> None:
    case = load_case(REUSED)
    post(shifted(case.facts, f"case/{node}", ahead, measured=True))
    assert {judged(store, uid) for uid in case.uids.values()} == {("clean", frozenset())}


@pytest.mark.parametrize("ahead", [-4.9, 4.9])
def test_where_clocks_are_not_known_a_room_that_may_have_been_shared_is_unknown_and_no_finding(
    store: Queries, post: Post, ahead: float
) -> None:
    """Five seconds lie between the two requests; by these clocks their legs may cross."""
    case = load_case(REUSED)
    post(shifted(case.facts, "case/prefill", ahead, measured=False))
    verdicts = {judged(store, uid)[0] for uid in case.uids.values()}
    assert "violation" not in verdicts
    assert "unknown" in verdicts
