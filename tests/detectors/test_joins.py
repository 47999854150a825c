"""Legs of two nodes are joined on what both saw; what a client can repeat or forge never joins the wrong ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from detectors.clocks import Clocks
from detectors.joins import Join, join_legs
from detectors.legs import Leg
from tests.support.legs import START, leg

SECOND = timedelta(seconds=1)
CLOCKS = Clocks(None, 0.5 * SECOND)


def joined(decodes: list[Leg], prefills: list[Leg]) -> list[Join]:
    return join_legs(decodes, prefills, CLOCKS)


DECODE = leg("d1", rooms=(7,), session="s", destination="x")
PREFILL = leg("p1", rooms=(7,), session="s", destination="x")


def test_legs_that_saw_the_same_destination_are_one_request() -> None:
    (join,) = joined([DECODE], [PREFILL])
    assert (join.prefill, join.basis) == (PREFILL, "destination")


def test_a_room_used_once_on_each_side_joins_a_prefill_leg_that_was_never_told_a_destination() -> None:
    rejected = replace(PREFILL, session="", destination="")
    (join,) = joined([DECODE], [rejected])
    assert (join.prefill, join.basis) == (rejected, "room")


OVER: dict[str, Any] = {"ended": START + SECOND, "last_time": START + SECOND, "last_seq": 8, "end_state": "finished"}
"""A leg that was there for a second, and is over."""


def later(leg: Leg, seconds: float, **given: Any) -> Leg:
    """The same leg of another request, so many seconds later on the same node."""
    shift = timedelta(seconds=seconds)
    moved = {name: getattr(leg, name) + shift for name in ("started", "ended", "last_time")}
    return replace(
        leg, uid=leg.uid + "-later", first_seq=leg.first_seq + 10, last_seq=leg.last_seq + 10, **moved | given
    )


DONE = replace(DECODE, emitter="host1/decode", committed=True, **OVER)
SENT = replace(PREFILL, emitter="host2/prefill", **OVER)


def test_a_room_that_was_cleanly_closed_and_used_again_joins_both_times() -> None:
    again, sent_again = later(DONE, 5, destination="y"), later(SENT, 5, destination="y")
    assert [join.prefill for join in joined([DONE, again], [sent_again, SENT])] == [SENT, sent_again]


def test_so_it_does_where_the_second_request_got_the_very_same_pages() -> None:
    again, sent_again = later(DONE, 5), later(SENT, 5)
    assert [join.prefill for join in joined([DONE, again], [sent_again, SENT])] == [SENT, sent_again]


def test_two_requests_in_one_room_at_once_are_not_told_apart_by_their_destinations() -> None:
    """The engine keeps where to send by room: the second list of pages takes the place of the first."""
    rival, sent_to_rival = later(DONE, 0.5, destination="y"), later(SENT, 0.5, destination="y")
    rival, sent_to_rival = replace(rival, first_seq=2), replace(sent_to_rival, first_seq=2)
    joins = joined([DONE, rival], [SENT, sent_to_rival])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_nor_is_one_whose_end_nobody_saw_told_from_the_next() -> None:
    open_end = replace(DONE, ended=None)
    joins = joined([open_end, later(DONE, 5, destination="y")], [SENT, later(SENT, 5, destination="y")])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_nor_one_whose_first_facts_were_lost() -> None:
    beheaded = replace(later(DONE, 5, destination="y"), ordinals=(2, 3))
    joins = joined([DONE, beheaded], [SENT, later(SENT, 5, destination="y")])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_one_room_on_two_decode_nodes_at_once_is_ambiguous() -> None:
    elsewhere = replace(DONE, uid="d2", emitter="host3/decode", boot="b3" * 16, session="t", destination="y")
    joins = joined([DONE, elsewhere], [SENT])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_two_nodes_whose_clocks_may_be_apart_are_taken_to_have_been_in_the_room_at_once() -> None:
    elsewhere = later(DONE, 1.2, emitter="host3/decode", boot="b3" * 16, session="t", destination="y")
    joins = joined([DONE, elsewhere], [SENT])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_a_transfer_that_was_left_open_spoils_the_room_for_the_next() -> None:
    failed = replace(DONE, committed=False, end_state="failed")
    joins = joined([failed, later(DONE, 5, destination="y")], [later(SENT, 5, destination="y")])
    assert joins[1].why_not == "ambiguous_join"


def test_a_stranger_is_not_joined_by_the_room_alone() -> None:
    stranger = replace(PREFILL, session="", destination="", tenant="bb" * 16, rejected=True)
    (join,) = joined([DECODE], [stranger])
    assert (join.prefill, join.why_not) == (None, "ambiguous_join")


def test_a_prefill_leg_that_came_when_the_answer_was_over_is_not_its_peer() -> None:
    late = later(replace(SENT, session="", destination="", rejected=True), 5)
    (join,) = joined([DONE], [late])
    assert (join.prefill, join.why_not) == (None, "ambiguous_join")


def test_two_prefill_legs_with_the_whole_key_are_ambiguous() -> None:
    (join,) = joined([DECODE], [PREFILL, replace(PREFILL, uid="p2")])
    assert (join.prefill, join.why_not) == (None, "ambiguous_join")


def test_two_decode_legs_with_the_whole_key_are_ambiguous() -> None:
    joins = joined([DECODE, replace(DECODE, uid="d2")], [PREFILL])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_a_room_that_a_second_request_repeated_never_joins_by_room_alone() -> None:
    untold = replace(PREFILL, session="", destination="")
    (join,) = joined([DECODE], [untold, replace(untold, uid="p2")])
    assert join.why_not == "ambiguous_join"


def test_a_lone_prefill_leg_for_other_pages_is_a_mismatch_not_a_join() -> None:
    (join,) = joined([DECODE], [replace(PREFILL, destination="y")])
    assert (join.prefill, join.why_not) == (None, "join_mismatch")


def test_without_a_prefill_leg_the_peer_was_not_seen() -> None:
    (join,) = joined([DECODE], [])
    assert join.why_not == "peer_not_seen"


def test_a_prefill_leg_of_the_room_that_was_told_no_destination_may_be_the_one_after_all() -> None:
    rejected = replace(PREFILL, uid="p2", session="", destination="")
    (join,) = joined([DECODE], [PREFILL, rejected])
    assert (join.prefill, join.why_not) == (None, "ambiguous_join")


def test_a_decode_leg_of_the_room_whose_reservation_was_lost_may_be_the_one_after_all() -> None:
    unknown = replace(DECODE, uid="d2", session="", destination="")
    joins = joined([DECODE, unknown], [PREFILL])
    assert {join.why_not for join in joins} == {"ambiguous_join"}
