"""How this host's clock stands to the receiver's: measured with every message, at the cost of none.

The receiver says its time with each answer (`pagewitness-time`, unix ns). It was read between the moment the message
went out and the moment the answer came, so the offset is known to half that time either way, whatever the path. The
best of the latest measurements is kept; as it ages, its error grows by what two clocks can drift apart.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

TIME_HEADER = "pagewitness-time"
"""Header of the receiver's answers: its time in unix ns. A stock collector in between does not send it."""

DRIFT_PER_SECOND_NS = 500_000
"""500 ppm: as fast as Linux slews a clock (adjtimex), and beyond what quartz drifts."""

STEP_NS = 50_000_000
"""A wall clock that moved this much against the monotonic one was set anew: what was measured before is void."""

KEPT = 32
_LONGEST = 19
"""Digits of the largest time that an int64 holds."""


@dataclass(frozen=True, slots=True)
class _Measured:
    offset_ns: int
    error_ns: int
    monotonic_ns: int
    base_ns: int  # wall clock less monotonic clock


class ClockOffset:
    """The receiver's clock less this host's. For one thread."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._measured: deque[_Measured] = deque(maxlen=KEPT)

    def start(self) -> tuple[int, int]:
        """To be called as a message goes out; give the result to `note`."""
        return self._wall(), self._monotonic()

    def note(self, started: tuple[int, int], header: str | None) -> None:
        """The answer to that message came, with this time in its header. No header, or an odd one, says nothing."""
        if header is None or not header.isascii() or not header.isdigit() or len(header) > _LONGEST:
            return
        wall, monotonic = self._wall(), self._monotonic()
        took, by_wall = monotonic - started[1], wall - started[0]
        if abs(took - by_wall) > STEP_NS or took < 0:
            return  # the clock was set while the message was under way
        half = took // 2 + 1
        self._measured.append(_Measured(int(header) - (started[0] + half), half, monotonic, wall - monotonic))

    def estimate(self) -> tuple[int, int] | None:
        """(offset, error) in ns as of now, or None where nothing was measured since the clock was last set."""
        monotonic = self._monotonic()
        base = self._wall() - monotonic
        valid = [one for one in self._measured if abs(one.base_ns - base) <= STEP_NS]
        if not valid:
            return None
        return min(
            ((one.offset_ns, one.error_ns + _drift(monotonic - one.monotonic_ns)) for one in valid),
            key=lambda pair: pair[1],
        )


def _drift(age_ns: int) -> int:
    return age_ns * DRIFT_PER_SECOND_NS // 1_000_000_000
