"""Words that several answers share: counts, reasons, how sure."""

from __future__ import annotations

from collections.abc import Mapping

from notify.answers import Counts, Evidence, Window
from notify.render.screen import Screen
from notify.times import for_people

SCOPE_MEANS = {
    "cross_tenant": "KV of another tenant",
    "unattributed": "KV that nobody vouches for: it may be another tenant's",
    "internal_donor": "KV of the operator's own traffic",
    "same_tenant": "KV of another request of the same tenant",
    "no_writer": "slots that nothing had written since the engine started",
}


def window_words(window: Window) -> str:
    """The window as part of a sentence."""
    start = f"from {for_people(window.from_)}" if window.from_ else "from the start of evidence"
    return f"{start} to {for_people(window.to)} UTC" if window.to else f"{start} on"


def counts_line(counts: Counts) -> str:
    """All four counts, whatever they are: the unknown ones above all."""
    total = counts.violation + counts.clean + counts.unknown + counts.pending
    return (
        f"{total} responses: {counts.violation} violation, {counts.clean} clean, {counts.unknown} unknown, "
        f"{counts.pending} pending"
    )


def show_reasons(screen: Screen, reasons: Mapping[str, int]) -> None:
    """Why responses are unknown or pending, a line a reason."""
    from detectors.verdicts import REASONS  # loads what judges, which an answer without reasons need not wait for

    for reason, count in reasons.items():
        screen.line(f"{count} x {reason}: {REASONS.get(reason, 'a reason that this version does not know')}", indent=2)


def show_evidence(screen: Screen, evidence: Evidence) -> None:
    """How sure the answer is."""
    if evidence.clean_for:
        screen.line(f"Clean for: {evidence.clean_for}.")
    if evidence.watermark:
        screen.line(f"Evidence from {for_people(evidence.starts)} to {for_people(evidence.watermark)} UTC (watermark).")
    if evidence.complete:
        screen.line("The evidence for this answer is complete.", "green")
    for because in evidence.incomplete_because:
        screen.line(f"Incomplete: {because}.", "yellow")
