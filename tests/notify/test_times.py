from __future__ import annotations

from datetime import UTC, datetime

import pytest

from notify.errors import UsageError
from notify.times import for_people, iso, parse_moment

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-08-31", "2026-08-31T00:00:00.000Z"),
        ("2026-08-31T10:30", "2026-08-31T10:30:00.000Z"),
        ("2026-08-31T10:30:00Z", "2026-08-31T10:30:00.000Z"),
        ("2026-08-31T10:30:00+02:00", "2026-08-31T08:30:00.000Z"),
        ("90s", "2026-09-01T11:58:30.000Z"),
        ("30m", "2026-09-01T11:30:00.000Z"),
        ("2h", "2026-09-01T10:00:00.000Z"),
        ("7d", "2026-08-25T12:00:00.000Z"),
        ("2w", "2026-08-18T12:00:00.000Z"),
    ],
)
def test_a_moment_is_iso_in_utc_or_an_age(text: str, moment: str) -> None:
    assert iso(parse_moment(text, NOW)) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "2h30m", "-2h", "2026-13-01", "999999999w", "10:30"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="2026-09-01T10:30"):
        parse_moment(text, NOW)


def test_people_read_seconds_and_a_dash_for_none() -> None:
    assert for_people("2026-08-31T10:30:59.123Z") == "2026-08-31 10:30:59"
    assert for_people(None) == "-"
