"""Emitters that went silent: what they served since is in no count, so an answer must say that they are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

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
