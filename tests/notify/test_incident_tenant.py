"""One tenant's list, restricted to an incident: the same list whenever it is asked for, with nothing of others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from detectors.queries import Queries
from notify.answers import DonorAnswer, RecipientAnswer
from notify.desk import TenantDesk
from notify.errors import UnknownError
from notify.exit_codes import ExitCode
from notify.incidents.definition import Incident
from notify.incidents.incident_desk import IncidentDesk
from tests.notify.incident_fixtures import day, tell
from tests.support.verdicts import KEYS, START, VerdictBook


def defined(incidents: IncidentDesk, **parts: object) -> Incident:
    return incidents.book.get(incidents.define(f"about-{len(incidents.all().incidents)}", day(**parts)).incident.name)


def recipient(desk: TenantDesk, tenant: str, incident: Incident) -> RecipientAnswer:
    return desk.recipient(tenant, incident.definition.window, incident.definition.scopes, incident)


def donor(desk: TenantDesk, tenant: str, incident: Incident) -> DonorAnswer:
    return desk.donor(tenant, incident.definition.window, incident.definition.scopes, incident)


def listed(answer: RecipientAnswer | DonorAnswer) -> set[str]:
    return {row.response_id for row in answer.responses}


def test_a_recipients_list_is_its_part_of_the_incident(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    tell(book)
    book.leak("acme", "zenith", model="other")
    book.leak("acme", "zenith", rules=["release_in_flight.landed"])
    book.leak("acme", "zenith", traffic="canary")
    book.leak("acme", "zenith", started=START + timedelta(days=30))
    book.state()
    about = defined(incidents, models=["tiny"], rules=["read_unwritten_page"], exclude_traffic=["canary"])
    of_incident = {row.response_id: row.tenant.name for row in incidents.affected(about.name).responses}
    for tenant in ("acme", "orion", "lab"):
        assert listed(recipient(desk, tenant, about)) == {uid for uid, name in of_incident.items() if name == tenant}
    assert len(listed(recipient(desk, "acme", about))) == 2


def test_a_donors_list_is_what_responses_of_the_incident_read(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    _, read_in_it = book.leak("acme", "zenith", started=START + timedelta(hours=1))
    _, read_by_canary = book.leak("acme", "zenith", traffic="canary")
    _, read_later = book.leak("acme", "zenith", started=START + timedelta(days=30))
    book.state()
    answer = donor(desk, "zenith", defined(incidents, exclude_traffic=["canary"]))
    assert listed(answer) == {read_in_it}
    assert answer.foreign_responses == 1
    assert {read_by_canary, read_later}.isdisjoint(listed(answer))


def test_a_donor_is_told_of_its_own_response_whatever_the_incident_leaves_out(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    source = book.response("zenith", model="older", traffic="canary", started=START - timedelta(days=9))
    reader = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=1, foreign_slots=16)
    book.foreign_range(reader, donor=source, donor_tenant="zenith")
    book.state()
    (row,) = donor(desk, "zenith", defined(incidents, models=["tiny"], exclude_traffic=["canary"])).responses
    assert (row.response_id, row.model, row.started) == (source, "older", "2026-08-23T10:00:00.000Z")


@pytest.mark.parametrize("role", ["recipient", "donor"])
def test_evidence_that_comes_later_moves_nothing(
    book: VerdictBook, handle: Queries, desk: TenantDesk, incidents: IncidentDesk, role: str
) -> None:
    story = tell(book)
    book.finding(story.acme)
    book.state()
    about = defined(incidents)

    def ask() -> RecipientAnswer | DonorAnswer:
        return recipient(desk, "acme", about) if role == "recipient" else donor(desk, "zenith", about)

    before = ask()
    book.response("acme", uid=story.acme)
    book.leak("acme", "zenith", started=START)
    book.finding(story.acme_later)
    book.state(watermark=START + timedelta(days=9), rule_set="another")
    for table in ("response_versions", "finding_versions", "foreign_range_versions"):
        handle.command(f"OPTIMIZE TABLE {table} FINAL")
    assert ask() == before
    assert before.exit_code == ExitCode.FOUND


def test_it_says_which_incident_and_what_that_is_about(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    tell(book)
    about = defined(incidents, models=["tiny"], exclude_traffic=["canary"], exclude_nodes=["host2/decode-31001"])
    ref = recipient(desk, "acme", about).incident
    assert ref is not None
    assert (ref.name, ref.revision, ref.models, ref.rules) == (about.name, 1, ["tiny"], [])
    assert (ref.excluded_traffic, ref.some_nodes) == (["canary"], True)


def test_a_tenant_that_the_incident_leaves_out_gets_no_all_clear(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    tell(book)
    answer = recipient(desk, "orion", defined(incidents, exclude_tenants=["orion"]))
    assert answer.responses == []
    assert any("leaves this tenant's responses out" in because for because in answer.evidence.incomplete_because)
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_a_tenant_of_whom_there_was_no_evidence_then_is_unknown(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    tell(book)
    about = defined(incidents)
    book.response("newcomer")
    book.state()
    with pytest.raises(UnknownError, match="unknown tenant 'newcomer'"):
        recipient(desk, "newcomer", about)


def test_a_rotated_key_does_not_split_the_tenants_list(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    old, _ = book.leak("acme", "zenith", key=KEYS[1])
    new, _ = book.leak("acme", "zenith")
    book.state()
    assert listed(recipient(desk, "acme", defined(incidents))) == {old, new}


def test_unknown_responses_are_listed_with_why_when_asked_for(
    book: VerdictBook, desk: TenantDesk, incidents: IncidentDesk
) -> None:
    story = tell(book)
    about = defined(incidents)
    window, scopes = about.definition.window, about.definition.scopes
    answer = desk.recipient("orion", window, scopes, about, include_unsure=True)
    assert answer.unsure is not None
    assert [(row.response_id, row.verdict, row.reasons) for row in answer.unsure] == [
        (story.unsure, "unknown", ["peer_not_seen"])
    ]
    assert desk.recipient("orion", window, scopes, include_unsure=False).unsure is None
