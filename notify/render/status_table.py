"""`notify status` as text."""

from __future__ import annotations

from notify.answers import StatusAnswer
from notify.evidence import plural
from notify.render.screen import Screen
from notify.render.words import counts_line, show_reasons
from notify.times import for_people


def show_status(answer: StatusAnswer, screen: Screen) -> None:
    """How far evidence and detection came."""
    screen.heading(f"pagewitness {answer.version}")
    screen.line(
        f"Evidence: {plural(answer.facts, 'fact')} of {plural(answer.emitters, 'emitter')} in "
        f"{plural(answer.boots, 'boot')}; {answer.lost} lost, {answer.dropped} dropped by hooks."
    )
    for reason, count in answer.rejects.items():
        screen.line(f"{count} x rejected: {reason}", "yellow", indent=2)
    for emitter, missing in answer.unrecorded.items():
        requests = plural(missing, "request")
        screen.line(f"{emitter}: {requests} finished by the engine's own count left no leg", "yellow", indent=2)
    for one in answer.silent:
        screen.line(f"{one.emitter} silent since {for_people(one.since)} UTC", "yellow", indent=2)
    screen.line(
        f"From {for_people(answer.evidence_starts)}, complete to {for_people(answer.watermark)} UTC (watermark); "
        f"{plural(answer.unjudged, 'fact')} not judged yet."
    )
    loop = answer.detection
    screen.line(
        f"Detection: {answer.rule_set or 'has not run yet'}; {plural(loop.passes, 'pass', 'passes')}, "
        f"{plural(loop.failures, 'failure')} since the service started."
    )
    if loop.last_failure:
        screen.line(f"Last failure: {loop.last_failure}", "red", indent=2)
    screen.line(f"{counts_line(answer.counts)}.")
    show_reasons(screen, answer.reasons)
    keys = ", ".join(answer.pseudonym_keys) or "none: tenants cannot be found by name"
    screen.line(f"Pseudonym keys: {keys}.")
