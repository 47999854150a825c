"""How sure an answer is: how far detection came, and each reason why the evidence for it is not complete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from notify.answers import Counts, Evidence
from notify.exit_codes import ExitCode
from notify.question import Question, Span
from notify.tenant_store import TenantStore
from notify.times import iso, microseconds, utc

NEVER = datetime.fromisoformat("1970-01-02T00:00:00+00:00")
"""Moments before this one mean that no agent ever attested anything."""


def plural(count: int, thing: str, things: str | None = None) -> str:
    """``1 response``, ``2 responses``."""
    return f"{count} {thing if count == 1 else things or thing + 's'}"


def assess(store: TenantStore, question: Question, counts: Counts, reasons: Sequence[str]) -> Evidence:
    """The evidence behind an answer. `reasons` are those that the answer itself found, a sentence each."""
    state = store.rows(question.scope, "SELECT * FROM detection_state")
    if not state:
        return Evidence(
            starts=None, watermark=None, judged_at=None, clean_for="", complete=False,
            incomplete_because=["detection has not run yet: nothing was judged"],
        )  # fmt: skip
    (row,) = state
    unsure = {"unknown": counts.unknown, "pending": counts.pending}
    because = [f"{plural(count, 'response')} {word}" for word, count in unsure.items() if count]
    because.extend(reasons)
    unjudged = store.rows(
        question.scope,
        "SELECT count() AS n FROM tenant_heard WHERE toUnixTimestamp64Micro(last) > {cursor:Int64}",
        cursor=microseconds(row["cursor"]),
    )[0]["n"]  # fmt: skip
    if unjudged:
        because.append("some of the tenant's evidence was received and has not been judged yet")
    starts = utc(row["evidence_from"]) if row["evidence_from"] else None
    watermark = utc(row["watermark"]) if utc(row["watermark"]) >= NEVER else None
    because.extend(outside(question.window, starts, watermark))
    return Evidence(
        starts=iso(starts) if starts else None,
        watermark=iso(watermark) if watermark else None,
        judged_at=iso(row["judged_at"]),
        clean_for=row["rule_set"],
        complete=not because,
        incomplete_because=because,
    )


def outside(window: Span, starts: datetime | None, watermark: datetime | None) -> list[str]:
    """Why the window is not covered by evidence from `starts` to `watermark`, a sentence each."""
    because = []
    if watermark is None:
        because.append("no agent has attested that its evidence is complete up to any time")
    elif window.end and window.end > watermark:
        because.append(f"the window ends after the watermark: evidence up to {iso(watermark)} is in")
    elif window.start and window.start > watermark:
        because.append(f"the window begins after the watermark: evidence up to {iso(watermark)} is in")
    if window.start and (starts is None or window.start < starts):
        because.append("the window begins before the start of evidence" + (f", {iso(starts)}" if starts else ""))
    elif window.end and starts and window.end < starts:
        because.append(f"the window ends before the start of evidence, {iso(starts)}")
    return because


def exit_code(listed: int, evidence: Evidence) -> ExitCode:
    """What the command ends with: found outranks incomplete."""
    if listed:
        return ExitCode.FOUND
    return ExitCode.OK if evidence.complete else ExitCode.INCOMPLETE
