"""Moments: read from a person, written for a person or a program. UTC everywhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from notify.errors import UsageError

_RELATIVE = re.compile(r"(\d{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
EXAMPLES = "2026-09-01, 2026-09-01T10:30, 2026-09-01T10:30:00Z, or 2h for two hours ago (s, m, h, d, w)"


def parse_moment(text: str, now: datetime) -> datetime:
    """A moment in UTC from ISO 8601 (without an offset: UTC) or from an age such as ``2h`` before `now`.

    Raises UsageError.
    """
    age = _RELATIVE.fullmatch(text.strip())
    try:
        if age:
            return now.astimezone(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a time: write {EXAMPLES}") from error


def utc(moment: datetime) -> datetime:
    """The same moment, aware of being UTC: the store's drivers return some of them bare."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: ``2026-09-01T10:30:00.000Z``."""
    return utc(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def microseconds(moment: datetime) -> int:
    """Unix time in microseconds: as exact as the driver's times are, which cut the store's nanoseconds."""
    since = utc(moment) - datetime.fromtimestamp(0, UTC)
    return since // timedelta(microseconds=1)


def for_people(moment: str | None) -> str:
    """An ISO moment of an answer as ``2026-09-01 10:30:00``, to the second; a dash for none."""
    return "-" if moment is None else moment[:19].replace("T", " ")
