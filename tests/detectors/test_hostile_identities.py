"""Rooms and request ids that clients choose, repeat and forge: never a wrong join, a wrong owner, or a wrong `clean`.

Truth is content, as in test_soundness.py; the pair keeps its transfers by room as the engine does, so a colliding room
really sends one request's KV to another's pages (tests/support/toy_rooms.py).
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
from tests.support.toy_pair import hexdigest
from tests.support.toy_rooms import Read, RoomAsk, RoomyPair

Post = Callable[[list[Fact]], None]
TENANTS = {name: (name * 32)[:32] for name in ("a", "b", "c")}
ROOMS = st.sampled_from(["", "", "x", "y"])  # most clients let a room be drawn for them
ASKS = st.lists(
    st.tuples(st.sampled_from(sorted(TENANTS)), st.integers(1, 24), st.integers(1, 6), ROOMS, ROOMS, st.booleans()),
    min_size=2,
    max_size=9,
)
FIXTURES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def play(asks: list[tuple[str, int, int, str, str, bool]], seed: int, *, lifo: bool = False) -> RoomyPair:
    """Requests of (tenant, prompt, output, room, rid, whether it is only sent when the one before is over)."""
    pair = RoomyPair(uuid.uuid4().hex, lifo=lifo)
    made = [
        RoomAsk(f"r{i}", TENANTS[who], prompt, output, room=room, rid=rid, after=f"r{i - 1}" if wait and i else "")
        for i, (who, prompt, output, room, rid, wait) in enumerate(asks)
    ]
    pair.run(list(made), random.Random(seed))
    pair.close(clock_offset=0, clock_error=0)
    return pair


def judge(store: Queries, pair: RoomyPair) -> dict[str, dict[str, Any]]:
    Runner(store, DetectionSettings()).run_once()
    uids = {"uids": list(pair.uids.values())}
    rows = store.rows("SELECT * FROM responses WHERE response_uid IN {uids:Array(String)}", uids)
    return {row["response_uid"]: row for row in rows}


def findings(store: Queries, uid: str) -> list[str]:
    sql = "SELECT variant FROM findings WHERE rule = 'identity_reuse' AND response_uid = {uid:String} ORDER BY variant"
    return [row["variant"] for row in store.rows(sql, {"uid": uid})]


def partner(pair: RoomyPair, uid: str) -> str:
    """Uid of the prefill leg that its client sent with this decode leg."""
    (name,) = [name for name, mine in pair.uids.items() if mine == uid]
    return hexdigest(pair.tag, "p", name)


@FIXTURES
@given(asks=ASKS, seed=st.integers(0, 999), lifo=st.booleans())
def test_whatever_rooms_and_ids_clients_choose_nothing_is_joined_owned_or_cleared_wrongly(
    store: Queries, post: Post, asks: list[tuple[str, int, int, str, str, bool]], seed: int, lifo: bool
) -> None:
    pair = play(asks, seed, lifo=lifo)
    post(pair.facts)
    verdicts = judge(store, pair)
    writer = {uid: name for name, uid in pair.uids.items()}
    for name, uid in pair.uids.items():
        row = verdicts[uid]
        read = pair.truth.get(name, Read(name, uid, {}))
        assert not (read.foreign and row["verdict"] == "clean"), (name, row["reasons"], read)
        assert row["prefill_uid"] in ("", partner(pair, uid)), (name, row["prefill_uid"])
        assert row["verdict"] != "violation" or read.foreign, (name, row)
        ranges = store.rows("SELECT * FROM foreign_ranges WHERE response_uid = {uid:String}", {"uid": uid})
        for part in ranges:
            for slot in range(part["slot_start"], part["slot_end"]):
                owner = read.foreign.get((part["page"], slot))
                assert not part["donor_response_uid"] or writer[part["donor_response_uid"]] == owner, (name, part)


@FIXTURES
@given(asks=ASKS, seed=st.integers(0, 999))
def test_a_room_of_ones_own_is_judged_as_ever_whatever_others_do(
    store: Queries, post: Post, asks: list[tuple[str, int, int, str, str, bool]], seed: int
) -> None:
    pair = play(asks, seed)
    post(pair.facts)
    verdicts = judge(store, pair)
    for number, (*_, room, _rid, _wait) in enumerate(asks):
        if not room:
            row = verdicts[pair.uids[f"r{number}"]]
            assert row["verdict"] == "clean", row["reasons"]
            assert "room_live_twice" not in findings(store, row["response_uid"])


def test_the_toy_really_mixes_up_two_requests_in_one_room() -> None:
    """The harness can fail: with some order of steps, one request reads what the other's prompt wrote."""
    twice = [("a", 20, 3, "x", "", False), ("b", 20, 3, "x", "", False)]
    owners = {
        owner for seed in range(20) for read in play(twice, seed).truth.values() for owner in read.foreign.values()
    }
    assert owners >= {"r0", "r1"}


def test_two_requests_of_one_tenant_in_one_room_are_never_clean_over_each_others_kv(store: Queries, post: Post) -> None:
    """By their facts both join perfectly, and no tenant differs: only that they lived at once gives it away."""
    pairs = [play([("a", 20, 3, "x", "", False), ("a", 20, 3, "x", "", False)], seed) for seed in range(12)]
    post([fact for pair in pairs for fact in pair.facts])
    foreign = [read.uid for pair in pairs for read in pair.truth.values() if read.foreign]
    assert foreign
    Runner(store, DetectionSettings()).run_once()
    rows = store.rows("SELECT verdict FROM responses WHERE response_uid IN {uids:Array(String)}", {"uids": foreign})
    assert {row["verdict"] for row in rows} == {"unknown"}


def test_two_tenants_in_one_room_at_once_are_both_unknown_and_both_told_and_neither_sees_the_other(
    store: Queries, post: Post
) -> None:
    pair = play([("a", 20, 3, "x", "", False), ("b", 20, 3, "x", "", False)], 3)
    post(pair.facts)
    verdicts = judge(store, pair)
    for name, other in (("r0", "r1"), ("r1", "r0")):
        row = verdicts[pair.uids[name]]
        assert (row["verdict"], row["reasons"]) == ("unknown", ["ambiguous_join"])
        (finding,) = store.rows("SELECT * FROM findings WHERE response_uid = {uid:String}", {"uid": pair.uids[name]})
        assert (finding["variant"], finding["tenant"]) == ("room_live_twice", pair.tenants[name])
        strangers = {pair.tenants[other], pair.uids[other], partner(pair, pair.uids[other])}
        assert not [value for value in finding.values() if value in strangers]


def test_the_same_room_again_after_its_first_request_is_over_is_clean_both_times(store: Queries, post: Post) -> None:
    pair = play([("a", 20, 3, "x", "i", False), ("b", 9, 3, "x", "i", True), ("b", 20, 3, "x", "i", True)], 5)
    post(pair.facts)
    verdicts = judge(store, pair)
    assert {row["verdict"] for row in verdicts.values()} == {"clean"}, [row["reasons"] for row in verdicts.values()]
    assert not [variant for uid in pair.uids.values() for variant in findings(store, uid)]


def test_a_request_id_repeated_while_the_first_runs_joins_right_and_is_told(store: Queries, post: Post) -> None:
    pair = play([("a", 20, 6, "", "i", False), ("b", 20, 6, "", "i", False)], 1)
    post(pair.facts)
    verdicts = judge(store, pair)
    for uid, row in verdicts.items():
        assert (row["verdict"], row["prefill_uid"]) == ("clean", partner(pair, uid))
        assert findings(store, uid) == ["rid_live_twice"]


def test_one_room_for_everything_is_not_looked_into(store: Queries, post: Post) -> None:
    pair = play([("a", 4, 1, "x", "", True) for _ in range(66)], 1)
    post(pair.facts)
    verdicts = judge(store, pair)
    assert {row["verdict"] for row in verdicts.values()} == {"unknown"}
    assert findings(store, pair.uids["r0"]) == ["room_crowded"]
