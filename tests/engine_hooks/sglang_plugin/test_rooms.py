"""Rooms: which live leg a bootstrap room stands for, when the engine says nothing but the room."""

from __future__ import annotations

import pytest

from engine_hooks.recorder import Leg
from engine_hooks.sglang_plugin import rooms as module
from engine_hooks.sglang_plugin.legs import LegState
from engine_hooks.sglang_plugin.rooms import Rooms


def a_leg(number: int = 1) -> LegState:
    leg = Leg(number.to_bytes(16, "little"), bytes(16), "", "customer")
    return LegState(leg, 0, bytes(16), number, 10, 10)


def test_a_room_stands_for_the_leg_that_entered_it() -> None:
    rooms, leg = Rooms(), a_leg()
    assert rooms.enter(7, leg)
    assert rooms.legs_of(7) == [leg]
    assert not rooms.shares(7)
    assert rooms.legs_of(8) == []


def test_a_leg_that_enters_again_is_still_one() -> None:
    rooms, leg = Rooms(), a_leg()
    rooms.enter(7, leg)
    rooms.enter(7, leg)
    assert (rooms.legs_of(7), rooms.shares(7)) == ([leg], False)


def test_a_room_of_two_live_legs_is_shared_until_both_are_over() -> None:
    rooms, first, second = Rooms(), a_leg(1), a_leg(2)
    rooms.enter(7, first)
    rooms.enter(7, second)
    assert (rooms.legs_of(7), rooms.shares(7)) == ([first, second], True)
    first.ended = "aborted"
    assert (rooms.legs_of(7), rooms.shares(7)) == ([second], True)
    second.ended = "finished"
    third = a_leg(3)
    rooms.enter(7, third)
    assert (rooms.legs_of(7), rooms.shares(7)) == ([third], False)


def test_a_leg_that_joins_the_survivor_of_a_shared_room_shares_it_too() -> None:
    rooms, first, second, third = Rooms(), a_leg(1), a_leg(2), a_leg(3)
    rooms.enter(7, first)
    rooms.enter(7, second)
    first.ended = "aborted"
    rooms.enter(7, third)
    assert (rooms.legs_of(7), rooms.shares(7)) == ([second, third], True)


def test_no_leg_is_kept_alive() -> None:
    rooms, leg = Rooms(), a_leg()
    rooms.enter(7, leg)
    del leg
    assert rooms.legs_of(7) == []


def test_rooms_of_legs_that_are_over_are_forgotten() -> None:
    rooms = Rooms()
    for room in range(1000):
        leg = a_leg(room + 1)
        rooms.enter(room, leg)
        leg.ended = "finished"
    assert len(rooms) <= 66


def test_there_is_an_end_to_how_many_live_rooms_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROOMS", 3)
    monkeypatch.setattr(module, "_UNSWEPT", 0)
    rooms, legs = Rooms(), [a_leg(number) for number in range(1, 6)]
    assert [rooms.enter(number, leg) for number, leg in enumerate(legs)] == [True, True, True, False, False]
    for leg in legs[:3]:
        leg.ended = "finished"
    assert rooms.enter(9, legs[4])
