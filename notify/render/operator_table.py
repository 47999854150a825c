"""The operator's views as tables. Each says in its first line whose view it is."""

from __future__ import annotations

from notify.answers import PairsAnswer, ResponsesAnswer, TenantRef, TenantsAnswer
from notify.evidence import plural
from notify.render.affected_table import SHORT_ID
from notify.render.screen import Column, Screen
from notify.render.words import counts_line, window_words
from notify.times import for_people

_PAIRS = (
    Column("Recipient", 21),
    Column("-> Donor", 21),
    Column("Scope", 14),
    Column("Responses", 9, "right"),
    Column("Slots", 7, "right"),
)
_TENANTS = (
    Column("Tenant", 28),
    Column("Affected", 8, "right"),
    Column("Clean", 8, "right"),
    Column("Unknown", 8, "right"),
    Column("Pending", 8, "right"),
)
_RESPONSES = (
    Column("Response", SHORT_ID),
    Column("Started (UTC)", 19),
    Column("Verdict", 9),
    Column("Scope", 14),
    Column("Tenant", 18),
)


def tenant_words(tenant: TenantRef) -> str:
    """The tenant's name, else its pseudonym with the id of its key."""
    if tenant.name is not None:
        return tenant.name
    return f"{tenant.key}:{tenant.pseudonym[:SHORT_ID]}" if tenant.key else tenant.pseudonym


def show_pairs(answer: PairsAnswer, screen: Screen) -> None:
    """Who received whose KV."""
    screen.heading("Operator's view, not for customers: whose KV went to whom")
    screen.line(f"Window: {window_words(answer.window)}. Scopes: {', '.join(answer.scopes)}.")
    if answer.pairs:
        screen.line()
        screen.headings(_PAIRS)
    for pair in answer.pairs:
        values = [
            tenant_words(pair.recipient),
            "-> " + tenant_words(pair.donor),
            pair.scope,
            str(pair.responses),
            str(pair.slots),
        ]
        screen.row(_PAIRS, values)
    screen.line()
    screen.line(f"{plural(len(answer.pairs), 'pair')}. Of {counts_line(answer.counts)}.")


def show_tenants(answer: TenantsAnswer, screen: Screen) -> None:
    """Every tenant of which there are responses."""
    screen.heading("Operator's view, not for customers: tenants")
    screen.headings(_TENANTS)
    for row in answer.tenants:
        values = [
            tenant_words(row.tenant),
            str(row.affected),
            str(row.counts.clean),
            str(row.counts.unknown),
            str(row.counts.pending),
        ]
        screen.row(_TENANTS, values, "red" if row.affected else "")


def show_responses(answer: ResponsesAnswer, screen: Screen) -> None:
    """Responses of all tenants."""
    whose = " to requests that no gateway vouched for" if answer.unattributed else ""
    screen.heading(f"Operator's view, not for customers: responses{whose}")
    screen.line(f"Window: {window_words(answer.window)}. Verdicts: {', '.join(answer.verdicts)}.")
    if answer.responses:
        screen.line()
        screen.headings(_RESPONSES)
    for row in answer.responses:
        tenant = tenant_words(row.tenant)
        values = [row.response_id[:SHORT_ID], for_people(row.started), row.verdict, row.scope or "", tenant]
        screen.row(_RESPONSES, values, "red" if row.verdict == "violation" else "")
        if row.reasons:
            screen.line(", ".join(row.reasons), "dim", indent=SHORT_ID + 2)
    screen.line()
    screen.line(f"{counts_line(answer.counts)}.")
