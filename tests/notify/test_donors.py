"""Role donor: what a tenant is told of responses of others that read its KV."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from notify.answers import DEFAULT_SCOPES, SCOPES, DonorAnswer
from notify.desk import TenantDesk
from notify.exit_codes import ExitCode
from notify.question import Span
from tests.support.otlp import TIME_NS, Fact, fact
from tests.support.verdicts import KEYS, START, VerdictBook

NEW, OLD = KEYS


def ask(desk: TenantDesk, tenant: str = "zenith", window: Span | None = None) -> DonorAnswer:
    return desk.donor(tenant, window or Span(), DEFAULT_SCOPES)


def test_an_exposed_response_is_the_donors_own_with_a_count_of_readers(book: VerdictBook, desk: TenantDesk) -> None:
    first, source = book.leak("acme", "zenith")
    second = book.response("orion", verdict="violation", scope="cross_tenant", donor_tenants=1, tokens_delivered=0)
    book.foreign_range(second, donor=source, donor_tenant="zenith")
    book.foreign_range(second, donor=source, donor_tenant="zenith", page=8)
    answer = ask(desk)
    (row,) = answer.responses
    assert row.model_dump() == {
        "response_id": source,
        "joined": True,
        "started": "2026-09-01T10:00:00.000Z",
        "ended": "2026-09-01T10:00:01.000Z",
        "model": "tiny",
        "tokens_delivered": 64,
        "scope": "cross_tenant",
        "derived": False,
        "foreign_responses": 2,
        "foreign_responses_delivered": 1,
    }
    assert answer.foreign_responses == 2
    assert answer.exit_code == ExitCode.FOUND
    assert first not in answer.model_dump_json()


def test_a_response_that_read_two_of_ours_is_one_foreign_response(book: VerdictBook, desk: TenantDesk) -> None:
    reader, _ = book.leak("acme", "zenith")
    book.foreign_range(reader, donor=book.response("zenith"), donor_tenant="zenith", page=8)
    answer = ask(desk)
    assert len(answer.responses) == 2
    assert answer.foreign_responses == 1


def test_the_window_is_that_of_the_reading(book: VerdictBook, desk: TenantDesk) -> None:
    """An incident exposes what earlier responses left in the pool."""
    hour = timedelta(hours=1)
    book.leak("acme", "zenith", started=START + 5 * hour, ended=START + 6 * hour)
    assert len(ask(desk, window=Span(START + 4 * hour, START + 7 * hour)).responses) == 1
    assert ask(desk, window=Span(START - hour, START + hour)).responses == []


def test_reading_ones_own_kv_exposes_nothing(book: VerdictBook, desk: TenantDesk) -> None:
    mine = book.response("zenith", key=OLD)
    leak = book.response("zenith", verdict="violation", scope="cross_tenant", donor_tenants=1)
    book.foreign_range(leak, donor=mine, donor_tenant="zenith", key=OLD)
    same = book.response("zenith", verdict="violation", scope="same_tenant")
    book.foreign_range(same, donor=mine, donor_tenant="zenith", key=OLD, scope="same_tenant")
    assert desk.donor("zenith", Span(), SCOPES).responses == []


def test_a_leg_that_was_never_joined_is_listed_as_such_with_its_own_times(
    book: VerdictBook, desk: TenantDesk, post: Callable[[Fact], None]
) -> None:
    name, key = book.identity("zenith")
    leg = "0d" * 16
    post(fact("pagewitness.response", uid=leg, tenant=name, tenant_key=key, time_ns=TIME_NS))
    reader = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=1)
    book.foreign_range(reader, donor=leg, donor_response_uid="", donor_tenant="zenith")
    (row,) = ask(desk).responses
    assert (row.response_id, row.joined, row.started) == (leg, False, "2026-09-21T14:13:20.000Z")


def test_a_donor_whose_own_evidence_is_gone_is_told_all_the_same(book: VerdictBook, desk: TenantDesk) -> None:
    reader = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=1)
    book.foreign_range(reader, donor="0d" * 16, donor_tenant="zenith")
    (row,) = ask(desk).responses
    assert (row.response_id, row.started, row.ended) == ("0d" * 16, None, None)


def test_reading_the_operators_own_traffic_is_listed_when_asked_for(book: VerdictBook, desk: TenantDesk) -> None:
    source = book.response("probe")
    reader = book.response("acme", verdict="violation", scope="internal_donor")
    book.foreign_range(reader, donor=source, donor_tenant="probe", scope="internal_donor")
    assert ask(desk, "probe").responses == []
    assert ask(desk, "probe").not_listed == {"internal_donor": 1}
    assert [row.scope for row in desk.donor("probe", Span(), SCOPES).responses] == ["internal_donor"]


def test_the_list_is_as_sure_as_everybodys_evidence(book: VerdictBook, desk: TenantDesk) -> None:
    book.response("zenith")
    book.response("acme", verdict="unknown", reasons=["peer_not_seen"])
    book.state()
    answer = ask(desk)
    assert answer.counts.unknown == 1
    assert answer.reasons == {"peer_not_seen": 1}
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_kv_that_nobody_vouches_for_may_be_the_tenants(book: VerdictBook, desk: TenantDesk) -> None:
    book.response("zenith")
    book.response("acme", verdict="violation", scope="unattributed", unattributed_slots=16)
    book.state()
    answer = ask(desk)
    assert answer.responses == []
    assert answer.evidence.incomplete_because == ["1 response read KV that nobody vouches for: it may be this tenant's"]
    assert answer.exit_code == ExitCode.INCOMPLETE
