"""Which leg of this process a bootstrap room stands for, where the engine says nothing but the room.

Clients choose rooms, so two legs can have the same one. Then nobody can say whose the message was: the room is
ambiguous for as long as one of them lives. The registry holds legs weakly and forgets those that are over, a few with
each one that comes in; it is written by the scheduler's thread alone, and read by any.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from engine_hooks.sglang_plugin.legs import LegState

MOST_ROOMS = 1 << 16
"""Rooms that it keeps; a leg that comes on top is not found by its room."""
_UNSWEPT = 64
"""Rooms that may lie there before it looks for some to forget."""

_Entry = tuple[bool, tuple["weakref.ref[LegState]", ...]]  # whether legs have shared the room; those that may live


class Rooms:
    """Rooms and the live legs that have them."""

    def __init__(self) -> None:
        self._entries: dict[Any, _Entry] = {}
        self._order: deque[Any] = deque()

    def enter(self, room: Any, state: LegState) -> bool:
        """From now on the room stands for this leg, too. False if there is no place for it."""
        order = self._order
        if len(order) > _UNSWEPT:
            self._sweep()
            self._sweep()  # one more than comes in: it shrinks back to what lives
        entry = self._entries.get(room)
        if entry is None:
            if len(order) >= MOST_ROOMS:
                return False
            order.append(room)
            self._entries[room] = (False, (weakref.ref(state),))
            return True
        others = tuple(ref for ref in entry[1] if _is_live(ref()) and ref() is not state)
        # replaced as a whole: another thread may be reading it
        self._entries[room] = (bool(others), (*others, weakref.ref(state)))
        return True

    def legs_of(self, room: Any) -> list[LegState]:
        """The live legs of a room. More than one, or one that `shares` it: whose it is, nobody can say."""
        entry = self._entries.get(room)
        states = [] if entry is None else [ref() for ref in entry[1]]
        return [state for state in states if state is not None and not state.over]

    def shares(self, room: Any) -> bool:
        """Whether several legs have had the room at a time, one of which may still live."""
        entry = self._entries.get(room)
        return entry is not None and entry[0]

    def __len__(self) -> int:
        return len(self._entries)

    def _sweep(self) -> None:
        """Look at the room that was looked at longest ago, and forget it if none of its legs lives."""
        room = self._order.popleft()
        for ref in self._entries[room][1]:
            if _is_live(ref()):
                self._order.append(room)
                return
        del self._entries[room]


def _is_live(state: LegState | None) -> bool:
    return state is not None and not state.ended and not state.ending
