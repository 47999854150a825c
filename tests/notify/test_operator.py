"""The operator's own views."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from detectors.queries import Queries
from notify.answers import DEFAULT_SCOPES, SCOPES, Counts, Detection
from notify.errors import UnknownError
from notify.ids import WantedId
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.operator_view import OperatorView
from notify.question import DEFAULT_VERDICTS, Span
from notify.status import service_status
from tests.support.otlp import fact
from tests.support.verdicts import EVIDENCE_KEY, KEYS, START, VerdictBook

NEW, OLD = KEYS


@pytest.fixture
def named(handle: Queries, tmp_path: Path) -> OperatorView:
    """The views of an operator who keeps a list of names; `secret` is not on it."""
    path = tmp_path / "tenants.txt"
    path.write_text("acme\norion\nzenith\n", encoding="utf-8")
    return OperatorView(OperatorStore(handle), TenantNames(path, KEYS))


def shown(view: OperatorView, window: Span | None = None) -> list[tuple[str | None, str | None, int, int]]:
    pairs = view.pairs(window or Span(), DEFAULT_SCOPES).pairs
    return [(pair.recipient.name, pair.donor.name, pair.responses, pair.slots) for pair in pairs]


def test_pairs_say_whose_kv_went_to_whom(book: VerdictBook, named: OperatorView) -> None:
    reader, _ = book.leak("acme", "zenith")
    book.foreign_range(reader, donor=book.response("zenith"), donor_tenant="zenith", page=8, slots=(0, 4))
    book.leak("acme", "zenith")
    book.leak("acme", "orion")
    book.leak("orion", "zenith")
    assert shown(named) == [("acme", "orion", 1, 16), ("acme", "zenith", 2, 36), ("orion", "zenith", 1, 16)]


def test_delivered_tokens_are_counted_once_a_response(book: VerdictBook, named: OperatorView) -> None:
    reader, _ = book.leak("acme", "zenith", tokens_delivered=30)
    book.foreign_range(reader, donor=book.response("zenith"), donor_tenant="zenith", page=8)
    (pair,) = named.pairs(Span(), DEFAULT_SCOPES).pairs
    assert (pair.tokens_delivered, pair.responses, pair.donor_responses) == (30, 1, 2)


def test_a_tenant_that_is_on_no_list_keeps_its_pseudonym(book: VerdictBook, named: OperatorView) -> None:
    book.leak("acme", "secret")
    (pair,) = named.pairs(Span(), DEFAULT_SCOPES).pairs
    assert (pair.donor.name, pair.donor.pseudonym, pair.donor.key) == (None, book.identity("secret")[0], "k2")


def test_pairs_of_rotated_keys_are_one_pair_and_nobody_is_its_own_donor(book: VerdictBook, named: OperatorView) -> None:
    book.leak("acme", "zenith", key=OLD)
    book.leak("acme", "zenith")
    reader = book.response("acme", verdict="violation", scope="cross_tenant")
    book.foreign_range(reader, donor=book.response("acme", key=OLD), donor_tenant="acme", key=OLD)
    assert shown(named) == [("acme", "zenith", 2, 32)]


def test_kv_of_nobody_is_a_pair_with_nobody(book: VerdictBook, named: OperatorView) -> None:
    reader = book.response("acme", verdict="violation", scope="unattributed")
    book.foreign_range(reader, scope="unattributed")
    (pair,) = named.pairs(Span(), DEFAULT_SCOPES).pairs
    assert (pair.donor.name, pair.donor.pseudonym, pair.scope) == (None, "unattributed", "unattributed")


def test_slots_that_nothing_had_written_have_no_donor(book: VerdictBook, named: OperatorView) -> None:
    reader = book.response("acme", verdict="violation", scope="no_writer")
    book.foreign_range(reader, scope="no_writer")
    assert named.pairs(Span(), SCOPES).pairs == []


def test_the_window_is_that_of_the_reading(book: VerdictBook, named: OperatorView) -> None:
    book.leak("acme", "zenith", started=START + timedelta(hours=5), ended=START + timedelta(hours=6))
    assert shown(named, Span(START, START + timedelta(hours=1))) == []
    assert len(shown(named, Span(START + timedelta(hours=5)))) == 1


def test_tenants_are_listed_with_their_counts(book: VerdictBook, named: OperatorView) -> None:
    book.leak("acme", "zenith")
    book.response("acme", verdict="unknown", reasons=["peer_not_seen"], key=OLD)
    book.response("acme", verdict="violation", scope="no_writer")
    book.response("unattributed", verdict="pending", reasons=["decode_leg_running"])
    rows = [
        (row.tenant.name or row.tenant.pseudonym, row.affected, row.counts) for row in named.tenants(Span()).tenants
    ]
    assert rows == [
        ("acme", 1, Counts(violation=2, clean=0, unknown=1, pending=0)),
        ("zenith", 0, Counts(violation=0, clean=1, unknown=0, pending=0)),
        ("unattributed", 0, Counts(violation=0, clean=0, unknown=0, pending=1)),
    ]


def test_responses_of_all_tenants_are_listed_by_verdict(book: VerdictBook, named: OperatorView) -> None:
    leak, source = book.leak("acme", "zenith")
    unsure = book.response("secret", verdict="unknown", reasons=["peer_not_seen"])
    listed = named.responses(Span(), ["violation", "unknown"], unattributed=False).responses
    assert [(row.response_id, row.tenant.name) for row in listed] == [(leak, "acme"), (unsure, None)]
    clean = named.responses(Span(), ["clean"], unattributed=False).responses
    assert [row.response_id for row in clean] == [source]


def test_what_nobody_vouched_for_is_listed_apart(book: VerdictBook, operator: OperatorView) -> None:
    book.response("unattributed")
    leak, _ = book.leak("unattributed", "zenith")
    unsure = book.response("unattributed", verdict="unknown", reasons=["peer_not_seen"])
    book.response("acme", verdict="unknown", reasons=["peer_not_seen"])
    answer = operator.responses(Span(), DEFAULT_VERDICTS, unattributed=True)
    assert [(row.response_id, row.verdict) for row in answer.responses] == [(leak, "violation"), (unsure, "unknown")]
    assert answer.counts == Counts(violation=1, clean=1, unknown=1, pending=0)


def test_a_response_is_shown_with_whose_it_is_where_it_ran_and_whose_kv_it_read(
    book: VerdictBook, named: OperatorView
) -> None:
    reader, source = book.leak("acme", "zenith", rid="chatcmpl-7")
    book.foreign_range(reader, donor=source, donor_tenant="zenith", page=8, token_start=16, slots=(0, 3))
    answer = named.response(WantedId.of("chatcmpl-7", [EVIDENCE_KEY]))
    assert (answer.response_id, answer.tenant.name, answer.emitter) == (reader, "acme", "host1/decode-31001-tp0")
    assert [(read.donor and read.donor.name, read.donor_response_id) for read in answer.reads] == [
        ("zenith", source)
    ] * 2
    assert [(read.page, read.slot_start, read.slot_end) for read in answer.reads] == [(7, 0, 16), (8, 0, 3)]
    assert [(read.tokens_from, read.tokens_to) for read in answer.ranges] == [(0, 19)]


def test_an_unknown_response_is_an_error(book: VerdictBook, operator: OperatorView) -> None:
    book.response("acme")
    with pytest.raises(UnknownError):
        operator.response(WantedId.of("ff" * 16, []))


def test_status_counts_what_was_lost(book: VerdictBook, handle: Queries, post: Callable[..., None]) -> None:
    """A hole below the newest fact, and what an agent vouched for and is not here."""
    post(
        fact("pagewitness.response", seq=1, ordinal=1),
        fact("pagewitness.response", seq=3, ordinal=3),
        fact(
            "pagewitness.emitter",
            emitter="host1/agent",
            boot="a0" * 16,
            subject_emitter="host1/decode-31001-tp0",
            subject_boot="b0" * 16,
            seq_high_water=5,
            drops=2,
        ),
    )
    book.state(cursor=START)
    nothing = Detection(passes=0, failures=0, last_failure=None, last_finished=None)
    status = service_status(OperatorStore(handle), nothing, ["k2"])
    assert (status.facts, status.emitters, status.boots) == (3, 2, 2)
    assert (status.lost, status.dropped) == (3, 2)
    assert status.unjudged == 2
