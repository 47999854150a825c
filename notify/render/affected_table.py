"""`notify affected` as a table: two lines or three a response, then how sure the answer is."""

from __future__ import annotations

from collections.abc import Sequence

from notify.answers import DonorAnswer, DonorRow, RecipientAnswer, RecipientRow, UnsureRow
from notify.evidence import plural
from notify.exit_codes import MEANING, ExitCode
from notify.render.plain import fit
from notify.render.screen import Column, Screen
from notify.render.words import SCOPE_MEANS, counts_line, show_evidence, show_reasons, window_words
from notify.times import for_people

SHORT_ID = 12
"""Digits of an id that a table shows; `notify response` takes them."""

_NAME_CELLS = 40
_RECIPIENT = (
    Column("Response", SHORT_ID),
    Column("Started (UTC)", 19),
    Column("Tokens", 6, "right"),
    Column("HTTP", 4, "right"),
    Column("Scope", 14),
    Column("Others", 6, "right"),
    Column("Slots", 7, "right"),
)
_UNSURE = (
    Column("Response", SHORT_ID),
    Column("Started (UTC)", 19),
    Column("Tokens", 6, "right"),
    Column("Verdict", 9),
)
_RECIPIENT_LEGEND = (
    "Tokens: delivered to the client. Others: other tenants whose KV it read. Slots: foreign token slots that it read."
)
_DONOR = (
    Column("Response", SHORT_ID),
    Column("Started (UTC)", 19),
    Column("Tokens", 6, "right"),
    Column("Scope", 14),
    Column("Read by", 7, "right"),
    Column("Delivered", 9, "right"),
)
_DONOR_LEGEND = (
    "Tokens: delivered to this tenant's own client. Read by: responses of others that read its KV. Delivered: how many "
    "of those delivered a token, or may have."
)


def show_recipient(answer: RecipientAnswer, screen: Screen) -> None:
    """The answer for the tenant whose responses read foreign KV."""
    name = fit(answer.tenant, _NAME_CELLS)
    screen.heading(f"{name}: {plural(len(answer.responses), 'response')} received foreign KV")
    screen.line(f"Window: {window_words(answer.window)}. Scopes: {', '.join(answer.scopes)}.")
    _show_incident(answer, screen)
    if answer.responses:
        screen.line()
        screen.headings(_RECIPIENT)
        for row in answer.responses:
            _show_recipient_row(row, screen)
        screen.line()
        screen.line(_RECIPIENT_LEGEND, "dim")
    _show_rest(answer, screen, f"Of {name}'s ")
    _show_unsure(answer.unsure or [], screen)
    by_effect: dict[str, list[str]] = {}
    for other in answer.other_findings:
        by_effect.setdefault(other.effect.replace("_", " "), []).append(f"{other.count} x {other.rule}")
    for effect, rules in by_effect.items():
        screen.line(f"Findings that are no leak ({effect}): {', '.join(rules)}.")
    _show_end(answer, screen)


def show_donor(answer: DonorAnswer, screen: Screen) -> None:
    """The answer for the tenant whose KV others read."""
    name = fit(answer.tenant, _NAME_CELLS)
    screen.heading(
        f"{name}: data of {plural(len(answer.responses), 'response')} was exposed in "
        f"{plural(answer.foreign_responses, 'foreign response')}"
    )
    screen.line(f"Window (of the reading): {window_words(answer.window)}. Scopes: {', '.join(answer.scopes)}.")
    _show_incident(answer, screen)
    if answer.responses:
        screen.line()
        screen.headings(_DONOR)
        for row in answer.responses:
            _show_donor_row(row, screen)
        screen.line()
        screen.line(_DONOR_LEGEND, "dim")
    _show_rest(answer, screen, "Of everybody's (any could be the reader) ")
    _show_end(answer, screen)


def _show_recipient_row(row: RecipientRow, screen: Screen) -> None:
    values = [
        row.response_id[:SHORT_ID],
        for_people(row.started),
        _number(row.tokens_delivered),
        _number(row.http_status),
        row.scope,
        str(row.other_tenants),
        str(row.foreign_slots),
    ]
    screen.row(_RECIPIENT, values, "red" if row.scope == "cross_tenant" else "")
    details = [f"rules: {', '.join(row.rules) or 'none'}"]
    if row.unattributed_slots:
        details.append(f"{plural(row.unattributed_slots, 'slot')} unattributed")
    if row.derived:
        details.append("derived")
    if row.other_findings:
        details.append(f"{plural(row.other_findings, 'finding')} of other effect")
    if row.ended is None:
        details.append("it runs, or its end was not seen")
    screen.line("; ".join(details), "dim", indent=SHORT_ID + 2)


def _show_donor_row(row: DonorRow, screen: Screen) -> None:
    values = [
        row.response_id[:SHORT_ID],
        for_people(row.started),
        _number(row.tokens_delivered),
        row.scope,
        str(row.foreign_responses),
        str(row.foreign_responses_delivered),
    ]
    screen.row(_DONOR, values, "red" if row.scope == "cross_tenant" else "")
    details = []
    if not row.joined:
        details.append("a leg that could not be joined to a response")
    if row.derived:
        details.append("read only through KV that was computed over it")
    if details:
        screen.line("; ".join(details), "dim", indent=SHORT_ID + 2)


def _show_incident(answer: RecipientAnswer | DonorAnswer, screen: Screen) -> None:
    about = answer.incident
    if about is None:
        return
    screen.line(f"Incident {about.name}, revision {about.revision}, as of {for_people(about.frozen_at)} UTC.")
    narrowed = [
        *([f"models {', '.join(about.models)}"] if about.models else []),
        *([f"rules {', '.join(about.rules)}"] if about.rules else []),
        *([f"all traffic but {', '.join(about.excluded_traffic)}"] if about.excluded_traffic else []),
        *(["some nodes"] if about.some_nodes else []),
    ]
    if narrowed:
        screen.line(f"It is about {'; '.join(narrowed)}. What else there is, it does not list.", indent=2)


def _show_unsure(rows: Sequence[UnsureRow], screen: Screen) -> None:
    if not rows:
        return
    screen.line()
    screen.line("May have received foreign KV (nobody can tell, or not yet):")
    screen.headings(_UNSURE)
    for row in rows:
        values = [row.response_id[:SHORT_ID], for_people(row.started), _number(row.tokens_delivered), row.verdict]
        screen.row(_UNSURE, values, "yellow")
        screen.line(", ".join(row.reasons), "dim", indent=SHORT_ID + 2)
    screen.line()


def _show_rest(answer: RecipientAnswer | DonorAnswer, screen: Screen, whose: str) -> None:
    screen.line()
    screen.line(f"{whose}{counts_line(answer.counts)}.")
    show_reasons(screen, answer.reasons)
    for scope, count in answer.not_listed.items():
        screen.line(f"Not listed: {count} {scope} ({SCOPE_MEANS[scope]}); --scope all lists them.")


def _show_end(answer: RecipientAnswer | DonorAnswer, screen: Screen) -> None:
    show_evidence(screen, answer.evidence)
    code = ExitCode(answer.exit_code)
    screen.line(f"Exit code {code.value}: {MEANING[code]}.")


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
