"""Role recipient: what a tenant is told of its own responses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from detectors.queries import Queries
from engine_hooks.identity import Key
from notify.answers import DEFAULT_SCOPES, SCOPES, Counts, RecipientAnswer
from notify.desk import TenantDesk
from notify.exit_codes import ExitCode
from notify.question import Span
from tests.support.otlp import Fact, fact
from tests.support.verdicts import KEYS, RULE_SET, START, VerdictBook

NEW, OLD = KEYS
EVER = Span()


def ask(desk: TenantDesk, tenant: str = "acme", window: Span = EVER) -> RecipientAnswer:
    return desk.recipient(tenant, window, DEFAULT_SCOPES)


def test_an_affected_response_is_listed_with_what_the_tenant_may_know(book: VerdictBook, desk: TenantDesk) -> None:
    source = book.response("zenith")
    leak = book.response(
        "acme",
        verdict="violation",
        scope="cross_tenant",
        donor_tenants=2,
        foreign_slots=40,
        unattributed_slots=8,
        tokens_delivered=31,
        http_status=None,
        finish="stop",
        rules=["read_unwritten_page"],
    )
    book.foreign_range(leak, donor=source, donor_tenant="zenith")
    book.finding(leak)
    book.finding(leak, rule="read_unwritten_page", variant="", effect="contamination")
    (row,) = ask(desk).responses
    assert row.model_dump() == {
        "response_id": leak,
        "started": "2026-09-01T10:01:00.000Z",
        "ended": "2026-09-01T10:01:01.000Z",
        "model": "tiny",
        "tokens_delivered": 31,
        "scope": "cross_tenant",
        "derived": False,
        "other_tenants": 2,
        "foreign_slots": 40,
        "unattributed_slots": 8,
        "rules": ["read_unwritten_page"],
        "other_findings": 1,
        "http_status": None,
        "finish": "stop",
    }


@pytest.mark.parametrize("keys", [KEYS, KEYS[:1]], ids=["rotated", "one key"])
def test_one_key_and_several_give_the_same_list(book: VerdictBook, handle: Queries, keys: tuple[Key, ...]) -> None:
    leak, _ = book.leak("acme", "zenith")
    answer = TenantDesk(handle, keys, []).recipient("acme", EVER, DEFAULT_SCOPES)
    assert [(row.response_id, row.other_tenants, row.scope) for row in answer.responses] == [(leak, 1, "cross_tenant")]


def test_responses_of_others_are_not_listed_or_counted(book: VerdictBook, desk: TenantDesk) -> None:
    book.leak("orion", "zenith")
    book.response("acme")
    answer = ask(desk)
    assert answer.responses == []
    assert answer.counts == Counts(violation=0, clean=1, unknown=0, pending=0)


def test_rows_come_by_time(book: VerdictBook, desk: TenantDesk) -> None:
    late, _ = book.leak(started=START + timedelta(minutes=9))
    early, _ = book.leak(started=START + timedelta(minutes=8))
    assert [row.response_id for row in ask(desk).responses] == [early, late]


def test_a_later_verdict_replaces_an_earlier_one(book: VerdictBook, desk: TenantDesk) -> None:
    uid = book.response(verdict="pending", reasons=["prefill_leg_running"])
    book.response(uid=uid)
    answer = ask(desk)
    assert answer.counts == Counts(violation=0, clean=1, unknown=0, pending=0)
    assert answer.reasons == {}


def test_foreign_kv_that_nobody_vouches_for_is_listed_under_that_name(book: VerdictBook, desk: TenantDesk) -> None:
    book.response(verdict="violation", scope="unattributed", unattributed_slots=16)
    book.response(verdict="violation", scope="")  # nothing is known of whose it was
    assert [row.scope for row in ask(desk).responses] == ["unattributed", "unattributed"]


def test_other_scopes_are_counted_and_listed_when_asked_for(book: VerdictBook, desk: TenantDesk) -> None:
    for scope in ("same_tenant", "no_writer", "internal_donor", "no_writer"):
        book.response(verdict="violation", scope=scope)
    assert ask(desk).responses == []
    assert ask(desk).not_listed == {"no_writer": 2, "internal_donor": 1, "same_tenant": 1}
    everything = desk.recipient("acme", EVER, SCOPES)
    assert len(everything.responses) == 4
    assert everything.not_listed == {}


def test_findings_of_another_effect_are_counted_and_are_no_leak(book: VerdictBook, desk: TenantDesk) -> None:
    response = book.response()
    book.finding(response)
    book.finding(response, rule="reject_then_continue", variant="")
    book.finding(book.response("orion"), "orion")
    book.state()
    answer = ask(desk)
    assert [(found.effect, found.rule, found.count) for found in answer.other_findings] == [
        ("exposure_risk", "reject_then_continue", 1),
        ("exposure_risk", "transfer_short", 1),
    ]
    assert answer.exit_code == ExitCode.OK


def test_reasons_of_the_unknown_are_counted_and_make_the_answer_incomplete(book: VerdictBook, desk: TenantDesk) -> None:
    book.response(verdict="unknown", reasons=["peer_not_seen", "rule_blind"])
    book.response(verdict="unknown", reasons=["peer_not_seen"])
    book.response(verdict="pending", reasons=["decode_leg_running"])
    book.state()
    answer = ask(desk)
    assert answer.reasons == {"peer_not_seen": 2, "decode_leg_running": 1, "rule_blind": 1}
    assert answer.evidence.incomplete_because == ["2 responses unknown", "1 response pending"]
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_found_outranks_incomplete(book: VerdictBook, desk: TenantDesk) -> None:
    book.leak()
    book.response(verdict="unknown", reasons=["peer_not_seen"])
    book.state()
    assert ask(desk).exit_code == ExitCode.FOUND


def test_nothing_found_over_complete_evidence_says_what_clean_is_clean_for(book: VerdictBook, desk: TenantDesk) -> None:
    book.response()
    book.state()
    answer = ask(desk)
    assert answer.exit_code == ExitCode.OK
    assert answer.evidence.model_dump(exclude={"judged_at"}) == {
        "starts": "2026-09-01T10:00:00.000Z",
        "watermark": "2026-09-01T11:00:00.000Z",
        "clean_for": RULE_SET,
        "complete": True,
        "incomplete_because": [],
    }


@pytest.mark.parametrize(
    ("state", "because"),
    [
        ({"watermark": datetime(1970, 1, 1, tzinfo=UTC)}, "no agent has attested"),
        ({"watermark": START + timedelta(minutes=5)}, "window ends after the watermark"),
        ({"evidence_from": START + timedelta(minutes=5)}, "window begins before the start of evidence"),
        ({"evidence_from": None}, "window begins before the start of evidence"),
    ],
)
def test_a_window_that_evidence_does_not_cover_is_no_all_clear(
    book: VerdictBook, desk: TenantDesk, state: dict[str, datetime | None], because: str
) -> None:
    book.response()
    book.state(**state)
    answer = ask(desk, window=Span(START, START + timedelta(minutes=10)))
    assert any(because in sentence for sentence in answer.evidence.incomplete_because)
    assert answer.exit_code == ExitCode.INCOMPLETE


@pytest.mark.parametrize(
    ("window", "because"),
    [
        (Span(START + timedelta(hours=2), None), "the window begins after the watermark"),
        (Span(None, START - timedelta(hours=1)), "the window ends before the start of evidence"),
    ],
)
def test_a_window_that_evidence_does_not_reach_is_no_all_clear(
    book: VerdictBook, desk: TenantDesk, window: Span, because: str
) -> None:
    book.response("acme")
    book.state()
    answer = desk.recipient("acme", window, DEFAULT_SCOPES)
    assert answer.evidence.incomplete_because[0].startswith(because)
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_before_detection_ran_nothing_is_clear(book: VerdictBook, desk: TenantDesk) -> None:
    book.response()
    answer = ask(desk)
    assert answer.evidence.incomplete_because == ["detection has not run yet: nothing was judged"]
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_evidence_that_was_not_judged_yet_is_no_all_clear(
    book: VerdictBook, desk: TenantDesk, post: Callable[[Fact], None]
) -> None:
    name, key = book.identity("acme")
    post(fact("pagewitness.response", tenant=name, tenant_key=key))
    book.state(cursor=START)
    answer = ask(desk)
    assert answer.counts == Counts(violation=0, clean=0, unknown=0, pending=0)
    assert answer.evidence.incomplete_because == [
        "some of the tenant's evidence was received and has not been judged yet"
    ]
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_an_affected_response_of_nobody_may_be_the_tenants(book: VerdictBook, desk: TenantDesk) -> None:
    book.response()
    book.leak("unattributed", "zenith")
    book.state()
    answer = ask(desk)
    assert answer.responses == []
    assert answer.evidence.incomplete_because == [
        "1 affected response of unattributed requests: nobody vouches for whose they are"
    ]


def test_the_window_takes_what_was_in_progress_at_any_time_in_it(book: VerdictBook, desk: TenantDesk) -> None:
    begin, end = START + timedelta(hours=1), START + timedelta(hours=2)
    minute = timedelta(minutes=1)
    inside = {
        book.leak(started=begin - minute, ended=begin + minute)[0],
        book.leak(started=begin, ended=end)[0],
        book.leak(started=end - minute, ended=end + minute)[0],
        book.leak(started=begin - minute, ended=None)[0],
    }
    book.leak(started=begin - 2 * minute, ended=begin - minute)
    book.leak(started=end, ended=end + minute)
    answer = ask(desk, window=Span(begin, end))
    assert {row.response_id for row in answer.responses} == inside
    assert answer.counts.violation == len(inside)


def test_a_rotated_key_does_not_split_the_tenant(book: VerdictBook, desk: TenantDesk) -> None:
    old, _ = book.leak(key=OLD)
    new, _ = book.leak(key=NEW)
    answer = ask(desk)
    assert [row.response_id for row in answer.responses] == [old, new]
    assert answer.tenant_keys == ["k1", "k2"]


def test_what_the_tenant_wrote_under_an_older_key_is_its_own(book: VerdictBook, desk: TenantDesk) -> None:
    mine = book.response(key=OLD)
    leak = book.response(verdict="violation", scope="cross_tenant", donor_tenants=1, foreign_slots=16)
    book.foreign_range(leak, donor=mine, donor_tenant="acme", key=OLD)
    answer = ask(desk)
    assert answer.responses == []
    assert answer.not_listed == {"same_tenant": 1}


def test_an_older_key_does_not_count_as_another_tenant_beside_a_real_one(book: VerdictBook, desk: TenantDesk) -> None:
    mine, theirs = book.response(key=OLD), book.response("zenith")
    leak = book.response(verdict="violation", scope="cross_tenant", donor_tenants=2, foreign_slots=32)
    book.foreign_range(leak, donor=mine, donor_tenant="acme", key=OLD)
    book.foreign_range(leak, donor=theirs, donor_tenant="zenith", page=8)
    (row,) = ask(desk).responses
    assert (row.scope, row.other_tenants) == ("cross_tenant", 1)
