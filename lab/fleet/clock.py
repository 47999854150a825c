"""Simulated time: one heap of things to do, in nanoseconds since the fleet's start."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

Action = Callable[..., None]


class Clock:
    """The time of the simulation, and what is due when. Things due at one time happen in the order they were named."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns  # unix time of the start
        self.now = 0
        self._due: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._order = count()

    @property
    def unix_ns(self) -> int:
        """The true time, as a clock without error shows it."""
        return self.start_ns + self.now

    def after(self, delay: int, action: Action, *arguments: Any) -> None:
        """Do it `delay` ns from now."""
        heapq.heappush(self._due, (self.now + delay, next(self._order), action, arguments))

    def at(self, time: int, action: Action, *arguments: Any) -> None:
        """Do it at this time, or now if that is past."""
        heapq.heappush(self._due, (max(time, self.now), next(self._order), action, arguments))

    def run(self, until: Callable[[], bool]) -> None:
        """Do what is due, one after the other, until nothing is left or `until` says so."""
        due = self._due
        while due and not until():
            self.now, _, action, arguments = heapq.heappop(due)
            action(*arguments)
