"""Times of different hosts, made comparable: how each host's clock stands to the receiver's, and how sure that is.

An agent measures the offset of its host's clock to the receiver's with every message (`pagewitness.clock.offset`, give
or take `pagewitness.clock.error`) and says so for each boot it drains. Here the measurements about an hour make one
interval: what to add to a time of that boot, at least and at most, to have it in the receiver's clock. Where nobody
measured, two clocks may be apart by the setting `clock_error_seconds`. Boots that one agent drained have one clock: an
agent reads the rings of its own host.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from detectors.queries import Queries

MOST = timedelta(days=1)
"""A clock that is said to be further off is not believed."""
_HOUR = timedelta(hours=1)
_NONE = timedelta(0)

_MEASURED = (
    "SELECT subject_emitter, subject_boot, hour, min(low) AS low, max(high) AS high FROM boot_clocks"
    " WHERE hour BETWEEN {first:DateTime('UTC')} AND {last:DateTime('UTC')}"
    " GROUP BY subject_emitter, subject_boot, hour"
)


@dataclass(frozen=True, slots=True)
class Shift:
    """What to add to a time of one clock to have it in another: between `low` and `high`."""

    low: timedelta
    high: timedelta


class Placed(Protocol):
    """A leg, or whatever else was recorded by one boot."""

    @property
    def emitter(self) -> str:
        """The process."""
        ...

    @property
    def boot(self) -> str:
        """One life of it."""
        ...


class Clocks:
    """How the clocks of boots stand to each other. One object serves one pass; measurements are read by the day."""

    def __init__(self, store: Queries | None, clock_error: timedelta) -> None:
        self._store = store
        self._unknown = Shift(-clock_error, clock_error)
        self._days: dict[datetime, dict[tuple[str, str, datetime], Shift]] = {}
        self._agents: dict[tuple[str, str], set[str]] | None = None

    def measured(self, emitter: str, boot: str, at: datetime) -> Shift | None:
        """From this boot's clock to the receiver's about this time; None where nobody measured, or not credibly."""
        hour = at.replace(minute=0, second=0, microsecond=0)
        day = self._of_day(at.replace(hour=0, minute=0, second=0, microsecond=0))
        near = [day.get((emitter, boot, moment)) for moment in (hour - _HOUR, hour, hour + _HOUR)]
        found = [shift for shift in near if shift is not None]
        if not found:
            return None
        return Shift(min(shift.low for shift in found), max(shift.high for shift in found))

    def to_receiver(self, emitter: str, boot: str, at: datetime) -> Shift:
        """From this boot's clock to the receiver's; the setting where nobody measured."""
        return self.measured(emitter, boot, at) or self._unknown

    def between(self, one: Placed, other: Placed, at: datetime) -> Shift:
        """From the clock of `one` to that of `other`."""
        if (one.emitter, one.boot) == (other.emitter, other.boot) or self._share_a_host(one, other):
            return Shift(_NONE, _NONE)
        mine, theirs = (self.measured(side.emitter, side.boot, at) for side in (one, other))
        if mine is None and theirs is None:
            return self._unknown
        first, second = mine or self._unknown, theirs or self._unknown
        return Shift(first.low - second.high, first.high - second.low)

    def _share_a_host(self, one: Placed, other: Placed) -> bool:
        if self._agents is None:
            self._agents = {}
            for row in self._store.rows("SELECT * FROM boot_agents") if self._store is not None else ():
                drained = self._agents.setdefault((row["subject_emitter"], row["subject_boot"]), set())
                drained.add(row["agent_boot"])
        mine, theirs = (self._agents.get((side.emitter, side.boot), set()) for side in (one, other))
        return bool(mine & theirs)

    def _of_day(self, day: datetime) -> dict[tuple[str, str, datetime], Shift]:
        if day not in self._days:
            self._days[day] = self._read(day) if self._store is not None else {}
        return self._days[day]

    def _read(self, day: datetime) -> dict[tuple[str, str, datetime], Shift]:
        assert self._store is not None
        if not _FIRST <= day <= _LAST:
            return {}
        limits = {"first": f"{day - _HOUR:%Y-%m-%d %H:%M:%S}", "last": f"{day + 24 * _HOUR:%Y-%m-%d %H:%M:%S}"}
        found = {}
        for row in self._store.rows(_MEASURED, limits):
            low, high = (timedelta(microseconds=row[side] // 1000) for side in ("low", "high"))
            if -MOST <= low <= high <= MOST:  # whole microseconds, rounded outwards
                shift = Shift(low, high + timedelta(microseconds=1))
                found[row["subject_emitter"], row["subject_boot"], row["hour"].replace(tzinfo=UTC)] = shift
        return found


_FIRST = datetime(1970, 1, 2, tzinfo=UTC)
_LAST = datetime(2105, 1, 1, tzinfo=UTC)
"""Days that a DateTime of the store can hold."""
