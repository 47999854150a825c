"""Who may be asked about, and what comes out whoever asks: never anything of another tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from detectors.queries import Queries
from notify.answers import SCOPES, Shape
from notify.desk import TenantDesk
from notify.errors import UnknownError, UsageError
from notify.question import Span
from tests.support.otlp import Fact, fact
from tests.support.verdicts import EVIDENCE_KEY, KEYS, VerdictBook


def test_an_unknown_tenant_is_an_error_never_an_empty_list(book: VerdictBook, desk: TenantDesk) -> None:
    book.response("acme")
    with pytest.raises(UnknownError, match=r"unknown tenant 'acmee'.*k2, k1.*not an all-clear"):
        desk.recipient("acmee", Span(), SCOPES)


def test_a_service_without_keys_says_that_it_cannot_find_anybody(book: VerdictBook, handle: Queries) -> None:
    book.response("acme")
    with pytest.raises(UnknownError, match="PAGEWITNESS_PSEUDONYM_KEYS"):
        TenantDesk(handle, [], []).recipient("acme", Span(), SCOPES)


@pytest.mark.parametrize("name", ["unattributed", ""])
def test_nobody_is_not_a_tenant(book: VerdictBook, desk: TenantDesk, name: str) -> None:
    book.response("unattributed")
    with pytest.raises(UsageError):
        desk.recipient(name, Span(), SCOPES)


def test_a_tenant_is_known_by_evidence_that_was_not_judged_yet(
    book: VerdictBook, desk: TenantDesk, post: Callable[[Fact], None]
) -> None:
    name, key = book.identity("acme")
    post(fact("pagewitness.request.admission", tenant=name, tenant_key=key))
    assert desk.recipient("acme", Span(), SCOPES).tenant_keys == ["k2"]


def test_a_tenant_is_known_by_its_kv_that_others_read(book: VerdictBook, desk: TenantDesk) -> None:
    reader = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=1)
    book.foreign_range(reader, donor="0d" * 16, donor_tenant="zenith")
    assert len(desk.donor("zenith", Span(), SCOPES).responses) == 1


def test_answers_hold_nothing_of_any_other_tenant(book: VerdictBook, desk: TenantDesk) -> None:
    emitter, page = "secret-host/decode-1", 31337
    reader, source = book.leak("acme", "zenith", emitter=emitter)
    book.foreign_range(reader, donor=source, donor_tenant="zenith", page=page, slots=(3, 9), token_start=16)
    book.finding(reader, "acme")
    recipient: list[Shape] = [desk.recipient("acme", Span(), SCOPES), desk.response("acme", reader)]
    donor = desk.donor("zenith", Span(), SCOPES)
    names = {tenant: book.identity(tenant)[0] for tenant in ("acme", "zenith")}
    for answer in recipient:
        for secret in (source, names["zenith"], "zenith", str(page), emitter):
            assert secret not in answer.model_dump_json()
    for secret in (reader, names["acme"], "acme", str(page), emitter):
        assert secret not in donor.model_dump_json()


class TestOneResponse:
    def test_it_is_found_by_its_id_its_beginning_its_prefill_leg_and_the_engines_request_id(
        self, book: VerdictBook, desk: TenantDesk
    ) -> None:
        book.response("acme")
        uid = book.response("acme", uid="ab" * 16, prefill_uid="cd" * 16, rid="chatcmpl-7")
        for wanted in (uid, "abababab", "ABABABAB", "cdcdcdcdcd", "chatcmpl-7", " chatcmpl-7 "):
            assert desk.response("acme", wanted).response_id == uid

    def test_one_of_another_tenant_is_unknown(self, book: VerdictBook, desk: TenantDesk) -> None:
        book.response("acme")
        other = book.response("orion", rid="chatcmpl-7")
        for wanted in (other, "chatcmpl-7"):
            with pytest.raises(UnknownError, match="no response"):
                desk.response("acme", wanted)

    def test_an_ambiguous_beginning_is_not_guessed(self, book: VerdictBook, desk: TenantDesk) -> None:
        for end in "01":
            book.response("acme", uid="abababab" * 3 + f"{end}" * 8)
        with pytest.raises(UsageError, match="several responses"):
            desk.response("acme", "abababab")

    @pytest.mark.parametrize("wanted", ["", "abc", "not-hex", "ab" * 17])
    def test_what_cannot_be_an_id_is_refused_where_request_ids_cannot_be_looked_up(
        self, book: VerdictBook, handle: Queries, wanted: str
    ) -> None:
        book.response("acme")
        with pytest.raises(UsageError, match="PAGEWITNESS_EVIDENCE_KEY"):
            TenantDesk(handle, KEYS, []).response("acme", wanted)

    def test_ranges_of_different_donors_are_one_for_the_recipient(self, book: VerdictBook, desk: TenantDesk) -> None:
        reader = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=2, foreign_slots=40)
        book.foreign_range(reader, donor=book.response("zenith"), donor_tenant="zenith", token_start=16)
        book.foreign_range(reader, donor=book.response("orion"), donor_tenant="orion", token_start=32, page=8)
        book.foreign_range(reader, scope="unattributed", token_start=48, page=9, slots=(0, 8))
        ranges = desk.response("acme", reader).ranges
        assert [(part.tokens_from, part.tokens_to, part.scope) for part in ranges] == [
            (16, 48, "cross_tenant"),
            (48, 56, "unattributed"),
        ]

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"verdict": "violation", "scope": "cross_tenant"}, 3),
            ({"verdict": "violation", "scope": "unattributed"}, 3),
            ({"verdict": "violation", "scope": "same_tenant"}, 0),
            ({"verdict": "clean"}, 0),
            ({"verdict": "unknown", "reasons": ["peer_not_seen"]}, 4),
            ({"verdict": "pending", "reasons": ["decode_leg_running"]}, 4),
        ],
    )
    def test_the_exit_code_is_the_verdicts(
        self, book: VerdictBook, desk: TenantDesk, fields: dict[str, Any], code: int
    ) -> None:
        assert desk.response("acme", book.response("acme", **fields)).exit_code == code


def test_the_test_key_is_the_one_that_digested_the_request_ids(book: VerdictBook, handle: Queries) -> None:
    """Otherwise the look-up above would prove nothing."""
    book.response("acme", rid="chatcmpl-7")
    assert TenantDesk(handle, KEYS, [EVIDENCE_KEY]).response("acme", "chatcmpl-7").verdict == "clean"
    with pytest.raises(UnknownError):
        TenantDesk(handle, KEYS, KEYS).response("acme", "chatcmpl-7")
