"""Evidence that is missing as a whole: emitters that went silent, and facts that were lost or dropped.

What was served then may be in no count at all, not even as `unknown`, so an answer must say that there is such a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from detectors.boots import EPOCH
from detectors.queries import Row
from notify.evidence import plural
from notify.question import Span
from notify.times import iso, utc

BOOTS = """
SELECT emitter, boot, max(heard) AS heard, max(attested) AS attested
FROM (
    SELECT emitter, boot, heard, 0 AS attested, 0 AS closed FROM boot_activity
    UNION ALL
    SELECT subject_emitter, subject_boot, heard, attested, closed FROM boot_words
)
GROUP BY emitter, boot HAVING max(closed) = 0
"""
"""SQL: boots of which nobody said that they ended, when they were last heard of, and up to when vouched for (ns)."""


LOSSY = """
SELECT emitter, boot, max(newest_seq) AS newest_seq, max(high_water) AS high_water, max(drops) AS drops,
    min(first_time) AS first_time, max(attested) AS attested, sum(fact_count) AS stored
FROM (
    SELECT emitter, boot, fact_count, newest_seq, 0 AS high_water, 0 AS drops, first_time, 0 AS attested
    FROM boot_activity
    UNION ALL
    SELECT subject_emitter, subject_boot, 0, 0, high_water, drops, toDateTime64('2200-01-01', 9, 'UTC'), attested
    FROM boot_words
)
GROUP BY emitter, boot HAVING sum(fact_count) < greatest(newest_seq, high_water) OR drops > 0
"""
"""SQL: boots of which fewer facts are here than were recorded, or which dropped some."""

HOLES = """
SELECT emitter, boot, earlier, time AS later FROM (
    SELECT emitter, boot, seq, time,
        lagInFrame(seq, 1, 0) OVER one AS before, lagInFrame(time, 1, time) OVER one AS earlier
    FROM (SELECT DISTINCT emitter, boot, seq, time FROM fact_times WHERE boot IN {boots:Array(String)})
    WINDOW one AS (PARTITION BY emitter, boot ORDER BY seq ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
) WHERE seq > before + 1
"""
"""SQL: the times between which facts of these boots are missing, from the fact before to the fact after."""


SHORTFALLS = """
SELECT emitter, boot, earlier, minute + toIntervalMinute(1) AS later, missing FROM (
    SELECT emitter, boot, minute, missing,
        max(missing) OVER (
            PARTITION BY emitter, boot ORDER BY minute ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
        lagInFrame(minute, 1, minute) OVER (
            PARTITION BY emitter, boot ORDER BY minute ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS earlier
    FROM (
        SELECT emitter, boot, minute, requests, requests - toInt64(answered) AS missing FROM (
            SELECT emitter, boot, minute, requests,
                sum(answers) OVER (PARTITION BY emitter, boot ORDER BY minute) AS answered
            FROM (
                SELECT emitter, boot, minute, max(requests) AS requests, sum(answers) AS answers
                FROM engine_counts
                WHERE (emitter, boot) IN (SELECT emitter, boot FROM engine_counts WHERE requests > 0)
                GROUP BY emitter, boot, minute
            )
        ) WHERE requests > 0
    )
) WHERE missing > greatest(before, 0)
"""
"""SQL: minutes by which an engine had finished more requests, by its own count, than its hooks had recorded answers;
each time that it became more. Answers of the whole minute are held against a count from within it: never too many."""


class Asks(Protocol):
    """Runs one of the queries above."""

    def __call__(self, sql: str, **params: Any) -> list[Row]:
        """Rows of a SELECT."""


def why_incomplete(rows: Asks, window: Span, silence: timedelta) -> list[str]:
    """Everything that is missing in this window now, a sentence each, without a name of a node."""
    silent = silences(rows(BOOTS), datetime.now(UTC), silence)
    lossy = rows(LOSSY)
    names = [row["boot"] for row in lossy]
    holes = rows(HOLES, boots=names) if names else []
    uncounted = shortfalls(rows(SHORTFALLS))
    return [
        *gap_sentences(silent, window),
        *loss_sentences(losses(lossy, holes), window),
        *shortfall_sentences(uncounted, window),
    ]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """So many requests that an engine finished left no leg, and were served between two times."""

    emitter: str
    boot: str
    earlier: datetime
    later: datetime
    missing: int  # in the boot so far


@dataclass(frozen=True, slots=True)
class Loss:
    """Facts of one emitter are missing that were recorded between two times."""

    emitter: str
    earlier: datetime
    later: datetime


@dataclass(frozen=True, slots=True)
class Silence:
    """An emitter whose boot never ended, as far as anybody said, and that is not heard of any more."""

    emitter: str
    since: datetime  # up to when its agent vouched for it; when it was last heard, where no agent did


def silences(boots: Iterable[Row], now: datetime, limit: timedelta) -> list[Silence]:
    """Emitters that have been silent for longer than `limit`, the longest first, from rows of BOOTS."""
    found = [
        Silence(
            row["emitter"],
            EPOCH + timedelta(microseconds=row["attested"] // 1000) if row["attested"] else utc(row["heard"]),
        )
        for row in boots
        if now - utc(row["heard"]) > limit
    ]
    return sorted(found, key=lambda one: (one.since, one.emitter))


def gap_sentences(found: Iterable[Silence], window: Span) -> list[str]:
    """Why an answer about this window is not complete, without a name of a node; empty if nothing is missing."""
    concerned = [one for one in found if window.end is None or one.since < window.end]
    if not concerned:
        return []
    emitters = plural(len(concerned), "emitter")
    return [f"{emitters} fell silent, the first at {iso(concerned[0].since)}: what they served since is not known"]


def losses(lossy: Iterable[Row], holes: Iterable[Row]) -> list[Loss]:
    """Where facts are missing, from rows of LOSSY and, for the same boots, of HOLES.

    A boot that dropped facts, or whose last ones are missing, has no fact after the hole: it ends with what its agent
    vouched for.
    """
    found = [Loss(row["emitter"], utc(row["earlier"]), utc(row["later"])) for row in holes]
    for row in lossy:
        vouched = EPOCH + timedelta(microseconds=row["attested"] // 1000)
        if row["drops"] or row["high_water"] > row["newest_seq"]:
            found.append(Loss(row["emitter"], min(utc(row["first_time"]), vouched), vouched))
    return sorted(found, key=lambda one: (one.earlier, one.emitter))


def loss_sentences(found: Iterable[Loss], window: Span) -> list[str]:
    """Why an answer about this window is not complete, without a name of a node; empty if nothing is missing in it."""
    concerned = [
        one
        for one in found
        if (window.end is None or one.earlier < window.end) and (window.start is None or one.later >= window.start)
    ]
    if not concerned:
        return []
    emitters = plural(len({one.emitter for one in concerned}), "emitter")
    first, last = iso(concerned[0].earlier), iso(max(one.later for one in concerned))
    return [f"facts of {emitters} were lost between {first} and {last}: what was served then may be missing"]


def shortfalls(rows: Iterable[Row]) -> list[Shortfall]:
    """Where requests left no leg, from rows of SHORTFALLS, the earliest first."""
    found = [
        Shortfall(row["emitter"], row["boot"], utc(row["earlier"]), utc(row["later"]), row["missing"]) for row in rows
    ]
    return sorted(found, key=lambda one: (one.earlier, one.emitter, one.boot))


def shortfall_sentences(found: Iterable[Shortfall], window: Span) -> list[str]:
    """Why an answer about this window is not complete, without a name of a node; empty if no count says so."""
    concerned = [
        one
        for one in found
        if (window.end is None or one.earlier < window.end) and (window.start is None or one.later >= window.start)
    ]
    if not concerned:
        return []
    missing = plural(sum(unrecorded(concerned).values()), "request")
    first, last = iso(concerned[0].earlier), iso(max(one.later for one in concerned))
    return [f"by the engines' own count {missing} served up to {last} left no leg, the first after {first}"]


def unrecorded(found: Iterable[Shortfall]) -> dict[str, int]:
    """How many requests left no leg, by emitter."""
    worst: dict[tuple[str, str], int] = {}
    for one in found:
        worst[one.emitter, one.boot] = max(one.missing, worst.get((one.emitter, one.boot), 0))
    by_emitter: dict[str, int] = {}
    for (emitter, _boot), missing in sorted(worst.items()):
        by_emitter[emitter] = by_emitter.get(emitter, 0) + missing
    return by_emitter
