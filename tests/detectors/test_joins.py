"""Legs of two nodes are joined on what both saw; what a client can repeat or forge never joins the wrong ones."""

from __future__ import annotations

from dataclasses import replace

from detectors.joins import join_legs
from tests.support.legs import leg

DECODE = leg("d1", rooms=(7,), session="s", destination="x")
PREFILL = leg("p1", rooms=(7,), session="s", destination="x")


def test_legs_that_saw_the_same_destination_are_one_request() -> None:
    (join,) = join_legs([DECODE], [PREFILL])
    assert (join.prefill, join.basis) == (PREFILL, "destination")


def test_a_room_used_once_on_each_side_joins_a_prefill_leg_that_was_never_told_a_destination() -> None:
    rejected = replace(PREFILL, session="", destination="")
    (join,) = join_legs([DECODE], [rejected])
    assert (join.prefill, join.basis) == (rejected, "room")


def test_a_room_that_two_requests_chose_is_told_apart_by_the_destination() -> None:
    other_decode = replace(DECODE, uid="d2", destination="y")
    other_prefill = replace(PREFILL, uid="p2", destination="y")
    joins = join_legs([DECODE, other_decode], [other_prefill, PREFILL])
    assert [join.prefill for join in joins] == [PREFILL, other_prefill]


def test_two_prefill_legs_with_the_whole_key_are_ambiguous() -> None:
    (join,) = join_legs([DECODE], [PREFILL, replace(PREFILL, uid="p2")])
    assert (join.prefill, join.why_not) == (None, "ambiguous_join")


def test_two_decode_legs_with_the_whole_key_are_ambiguous() -> None:
    joins = join_legs([DECODE, replace(DECODE, uid="d2")], [PREFILL])
    assert {join.why_not for join in joins} == {"ambiguous_join"}


def test_a_room_that_a_second_request_repeated_never_joins_by_room_alone() -> None:
    untold = replace(PREFILL, session="", destination="")
    (join,) = join_legs([DECODE], [untold, replace(untold, uid="p2")])
    assert join.why_not == "ambiguous_join"


def test_a_lone_prefill_leg_for_other_pages_is_a_mismatch_not_a_join() -> None:
    (join,) = join_legs([DECODE], [replace(PREFILL, destination="y")])
    assert (join.prefill, join.why_not) == (None, "join_mismatch")


def test_without_a_prefill_leg_the_peer_was_not_seen() -> None:
    (join,) = join_legs([DECODE], [])
    assert join.why_not == "peer_not_seen"


def test_a_prefill_leg_of_the_room_that_was_told_no_destination_may_be_the_one_after_all() -> None:
    rejected = replace(PREFILL, uid="p2", session="", destination="")
    (join,) = join_legs([DECODE], [PREFILL, rejected])
    assert (join.prefill, join.why_not) == (None, "ambiguous_join")


def test_a_decode_leg_of_the_room_whose_reservation_was_lost_may_be_the_one_after_all() -> None:
    unknown = replace(DECODE, uid="d2", session="", destination="")
    joins = join_legs([DECODE, unknown], [PREFILL])
    assert {join.why_not for join in joins} == {"ambiguous_join"}
