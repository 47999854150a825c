"""Incidents as text. What they come to is across tenants, and each view says so in its first line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from notify.evidence import plural
from notify.exit_codes import MEANING, ExitCode
from notify.incidents.answers import (
    DefinedAnswer,
    IncidentAffectedAnswer,
    IncidentAnswer,
    IncidentsAnswer,
    LeftOut,
    Moved,
    PreviewAnswer,
    Share,
)
from notify.render.operator_table import tenant_words
from notify.render.screen import Column, Screen
from notify.render.words import SCOPE_MEANS, counts_line, show_evidence, show_reasons, window_words
from notify.times import for_people

OPERATORS = "Operator's view, not for customers"
_LISTED = (
    Column("Incident", 22),
    Column("Rev", 4, "right"),
    Column("From (UTC)", 19),
    Column("To (UTC)", 19),
    Column("Digest", 8),
)
_COUNTS = (
    Column("Affected", 8, "right"),
    Column("Derived", 8, "right"),
    Column("Tokens", 9, "right"),
    Column("Unknown", 9, "right"),
    Column("Pending", 8, "right"),
)
_KEY = 28
_RULES = (Column("Rule", 34), Column("Effect", 13), Column("Affected", 8, "right"), Column("At risk", 8, "right"))
_DONORS = (Column("Donor", _KEY), Column("Read by", 8, "right"), Column("Own", 8, "right"))
_LEFT = (
    Column("Left out by", 11),
    Column("", 34),
    Column("Responses", 9, "right"),
    Column("Affected", 8, "right"),
    Column("Unsure", 8, "right"),
)
_MOVED = (Column("Response", 12), Column("Started (UTC)", 19), Column("Tenant", 28))
_SHOWN_MOVED = 20
"""Rows of each list that a table shows: JSON has all of them."""


def show_incidents(answer: IncidentsAnswer, screen: Screen) -> None:
    """Every incident."""
    screen.heading(f"{plural(len(answer.incidents), 'incident')}")
    if answer.incidents:
        screen.headings(_LISTED)
    for one in answer.incidents:
        window = (for_people(one.window.from_), for_people(one.window.to))
        screen.row(_LISTED, [one.name, str(one.revision), *window, one.digest[:8]])


def show_incident(answer: IncidentAnswer, screen: Screen) -> None:
    """A definition and what it is frozen by."""
    screen.heading(f"Incident {answer.name}, revision {answer.revision}")
    screen.line(f"Defined {for_people(answer.defined_at)} UTC. Window: {window_words(answer.window)}.", indent=2)
    screen.line(f"Models: {_all(answer.models)}. Nodes: {_all(answer.nodes)}. Rules: {_all(answer.rules)}.", indent=2)
    screen.line(f"Effects: {', '.join(answer.effects)}. Scopes: {', '.join(answer.scopes)}.", indent=2)
    tenants = [tenant_words(one) for one in answer.excluded_tenants]
    for what, words in (
        ("traffic", answer.excluded_traffic),
        ("tenants", tenants),
        ("nodes", answer.excluded_nodes),
    ):
        if words:
            screen.line(f"Left out, {what}: {', '.join(words)}.", indent=2)
    if answer.note:
        screen.line(f"Note: {answer.note}", indent=2, hang=2)
    frozen = answer.as_of
    screen.line(
        f"Frozen by what had arrived by {for_people(frozen.cursor)} UTC and was judged in the pass of "
        f"{for_people(frozen.judged_at)} UTC (verdicts to {frozen.version}); {frozen.rule_set}; "
        f"rules {frozen.rules_digest}, evidence contract {frozen.contract}.",
        indent=2,
    )
    screen.line(f"Digest {answer.digest}", indent=2)


def show_defined(answer: DefinedAnswer, screen: Screen) -> None:
    """What was written, and what it follows."""
    show_incident(answer.incident, screen)
    if answer.previous:
        before = answer.previous
        screen.line(
            f"It follows revision {before.revision}, which was frozen at {for_people(before.as_of.judged_at)} UTC with "
            f"digest {before.digest[:12]} and stays: --revision {before.revision} shows it.",
            "yellow",
        )
    screen.line(f"{plural(answer.affected, 'affected response')}; `notify incident affected` has the totals.")


def show_affected(answer: IncidentAffectedAnswer, screen: Screen) -> None:
    """Totals, what was left out, coverage, digest."""
    incident = answer.incident
    screen.heading(f"{OPERATORS}: incident {incident.name}, revision {incident.revision}")
    screen.line(f"Window: {window_words(incident.window)}. As of {for_people(incident.as_of.cursor)} UTC.")
    screen.line(
        f"{plural(answer.affected, 'affected response')}, and {answer.derived} derived; "
        f"{plural(answer.tokens_delivered, 'token')} delivered.",
        "red" if answer.affected + answer.derived else "",
    )
    if answer.at_risk:
        screen.line(f"{plural(answer.at_risk, 'response')} at risk, and not affected as far as is known.", "yellow")
    _shares("Tenant", [(tenant_words(one.tenant), one) for one in answer.by_tenant], screen)
    if answer.by_rule:
        screen.line()
        screen.headings(_RULES)
    for one in answer.by_rule:
        screen.row(_RULES, [one.rule, one.effect, str(one.affected), str(one.at_risk)])
    _shares("Node", [(one.node, one) for one in answer.by_node], screen)
    _shares("Day (UTC)", [(one.day, one) for one in answer.by_day], screen)
    if answer.donors:
        screen.line()
        screen.headings(_DONORS)
    for donor in answer.donors:
        screen.row(_DONORS, [tenant_words(donor.tenant), str(donor.read_by), str(donor.own_responses)])
    _show_left_out(answer.left_out, screen)
    screen.line()
    screen.line(f"Of what is not left out, {counts_line(answer.counts)}.")
    show_reasons(screen, answer.reasons)
    show_evidence(screen, answer.evidence)
    screen.line(f"Digest {answer.digest}" + ("" if answer.reproduced else f", frozen with {incident.digest}"))
    _end(answer.exit_code, screen)


def show_preview(answer: PreviewAnswer, screen: Screen) -> None:
    """What a change would add and remove, and who stays unknown."""
    incident = answer.incident
    screen.heading(f"{OPERATORS}: preview of incident {incident.name}, revision {incident.revision}")
    screen.line(f"Changed: {', '.join(answer.changed) or 'nothing'}. Nothing was written.")
    screen.line(
        f"{answer.before} affected responses would become {answer.after}: {len(answer.added)} added, "
        f"{len(answer.removed)} removed."
    )
    _show_moved("Added", answer.added, screen)
    _show_moved("Removed", answer.removed, screen)
    _show_left_out(answer.left_out, screen)
    screen.line()
    screen.line(f"Of what would not be left out, {counts_line(answer.counts)}.")
    show_reasons(screen, answer.reasons)
    for one in answer.unsure:
        why = ", ".join(f"{count} x {reason}" for reason, count in one.reasons.items())
        screen.line(
            f"{tenant_words(one.tenant)}: {one.unknown} unknown, {one.pending} pending ({why})", indent=2, hang=2
        )
    show_evidence(screen, answer.evidence)
    _end(answer.exit_code, screen)


def _shares(heading: str, rows: Sequence[tuple[str, Share]], screen: Screen) -> None:
    if not rows:
        return
    columns = (Column(heading, _KEY), *_COUNTS)
    screen.line()
    screen.headings(columns)
    for key, one in rows:
        values = [one.affected, one.derived, one.tokens_delivered, one.unknown, one.pending]
        screen.row(columns, [key, *map(str, values)], "red" if one.affected + one.derived else "")


def _show_left_out(rows: Sequence[LeftOut], screen: Screen) -> None:
    if rows:
        screen.line()
        screen.headings(_LEFT)
    for one in rows:
        meaning = f" ({SCOPE_MEANS[one.what]})" if one.what in SCOPE_MEANS else ""
        screen.row(_LEFT, [one.by, one.what + meaning, str(one.responses), str(one.violations), str(one.unsure)])


def _show_moved(heading: str, rows: Sequence[Moved], screen: Screen) -> None:
    if not rows:
        return
    by_tenant = Counter(tenant_words(one.tenant) for one in rows)
    screen.line()
    screen.line(f"{heading}: " + ", ".join(f"{count} of {tenant}" for tenant, count in by_tenant.most_common()))
    screen.headings(_MOVED)
    for one in rows[:_SHOWN_MOVED]:
        screen.row(_MOVED, [one.response_id[:12], for_people(one.started), tenant_words(one.tenant)])
    if len(rows) > _SHOWN_MOVED:
        screen.line(f"... and {len(rows) - _SHOWN_MOVED} more: -o json lists them.", "dim")


def _all(words: Sequence[str]) -> str:
    return ", ".join(words) or "all"


def _end(code: int, screen: Screen) -> None:
    screen.line(f"Exit code {code}: {MEANING[ExitCode(code)]}.")
