"""The store has the columns of the contract, and every span of the contract arrives in them as it was sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collector.store import Handle, Store
from collector.store.migrate import FOLDER
from collector.store.schema import contract_migration
from engine_hooks.conventions import CONTRACT_VERSION, SPANS, Span, Type, attributes, column, fields_of
from tests.collector.conftest import Rows
from tests.support.otlp import Fact, export, fact

VARIANTS = [
    pytest.param(span, variant, id=f"{span.name}-{variant}")
    for span in SPANS
    for variant in (span.variant.choices if span.variant else ("",))
]


def of_variant(make: Callable[..., Fact], span: Span, variant: str, **named: object) -> Fact:
    chosen = {column(span.variant.name): variant} if span.variant else {}
    return make(span.name, **chosen, **named)


def test_the_newest_migration_of_evidence_is_what_the_contract_says() -> None:
    newest = max(FOLDER.glob("*_contract_*.sql"))
    assert newest.name.endswith(f"_contract_{CONTRACT_VERSION}.sql"), "the contract has a version without a migration"
    assert newest.read_text(encoding="utf-8") == contract_migration(), (
        f"run: python -m collector.store.schema > {newest.name}, or, if that was ever released, make a further version"
    )


def test_the_columns_are_those_of_the_contract(handle: Handle) -> None:
    rows = handle.query(
        "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'evidence'"
    )
    nullable, words = "Nullable(Int64)", "LowCardinality(String)"
    by_type = {
        Type.INT: nullable,
        Type.BOOL: "Nullable(Bool)",
        Type.ENUM: words,
        Type.DIGEST: "String",
        Type.TEXT: words,
        Type.TEXTS: "Array(String)",
        Type.PAGES: "Array(Int64)",
        Type.PER_PAGE: "Array(Int64)",
        Type.INTS: "Array(Int64)",
    }
    of_attributes = {column(name): by_type[one.type] for one in attributes() for name in one.wire_names}
    of_the_span = {"contract": "Int64", "span": words, "uid": "String", "time": "DateTime64(9, 'UTC')"}
    identity = {"emitter": words, "boot": words, "seq": "Int64"}
    ours = {"received_at": "DateTime64(9, 'UTC')", "content_hash": "UInt64"}
    assert dict(rows) == of_attributes | of_the_span | identity | ours


def test_facts_have_every_column_of_evidence_and_the_number_of_contents(handle: Handle) -> None:
    sql = (
        "SELECT name FROM system.columns "
        "WHERE database = currentDatabase() AND table = {table:String} ORDER BY position"
    )
    evidence, facts = ([name for (name,) in handle.query(sql, {"table": table})] for table in ("evidence", "facts"))
    assert facts == [*evidence, "contents"]


@pytest.mark.parametrize(("span", "variant"), VARIANTS)
def test_a_span_with_all_that_it_must_have_is_stored(
    span: Span, variant: str, store: Store, made: Callable[..., Fact], facts: Rows
) -> None:
    receipt = store.insert_otlp(export(of_variant(made, span, variant)))
    assert (receipt.stored, receipt.rejects) == (1, {})
    assert facts("span") == [{"span": span.name}]


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.name)
def test_every_attribute_arrives_as_it_was_sent(
    span: Span, store: Store, made: Callable[..., Fact], facts: Rows
) -> None:
    sent = with_every_attribute(made, span)
    store.insert_otlp(export(sent))
    columns = {column(name): value for name, value in sent.attributes.items()}
    assert facts(", ".join(columns)) == [columns]


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.name)
def test_an_attribute_that_was_not_sent_is_absent_and_no_default(
    span: Span, store: Store, made: Callable[..., Fact], facts: Rows
) -> None:
    sent = made(span.name)
    store.insert_otlp(export(sent))
    lists: dict[Type, object] = {kind: [] for kind in (Type.TEXTS, Type.PAGES, Type.PER_PAGE, Type.INTS)}
    absent: dict[Type, object] = {Type.INT: None, Type.BOOL: None, **lists}
    expected = {
        column(name): absent.get(one.type, "")
        for one in attributes()
        for name in one.wire_names
        if name not in sent.attributes
    }
    assert facts(", ".join(expected)) == [expected]


def test_identity_and_time_come_from_the_resource_and_the_span(
    store: Store, made: Callable[..., Fact], facts: Rows
) -> None:
    time_ns = 1_790_000_000_123_456_789
    sent = made("pagewitness.page.read", emitter="host1/decode-1-tp0", seq=7, uid="0a" * 16, time_ns=time_ns)
    store.insert_otlp(export(sent))
    assert facts("emitter, contract, seq, uid, toUnixTimestamp64Nano(time) AS ns") == [
        {"emitter": "host1/decode-1-tp0", "contract": CONTRACT_VERSION, "seq": 7, "uid": "0a" * 16, "ns": time_ns}
    ]


def test_zero_and_false_and_an_empty_list_are_values(store: Store, made: Callable[..., Fact], facts: Rows) -> None:
    sent = made("pagewitness.page.release", pages=[], pages_complete=False, prefix_tokens=0)
    assert store.insert_otlp(export(sent)).stored == 1
    assert facts("pages_start, pages_complete, prefix_tokens") == [
        {"pages_start": [], "pages_complete": False, "prefix_tokens": 0}
    ]


def test_a_tenant_may_be_unattributed(store: Store, made: Callable[..., Fact], facts: Rows) -> None:
    assert store.insert_otlp(export(made("pagewitness.page.read", tenant="unattributed"))).stored == 1
    assert facts("tenant_id, tenant_key") == [{"tenant_id": "unattributed", "tenant_key": ""}]


def with_every_attribute(make: Callable[..., Fact], span: Span) -> Fact:
    """A fact with each attribute of its span, no two numbers alike."""
    bare = fact(span.name)
    given: dict[str, object] = {}
    for number, field in enumerate(fields_of(span)):
        one = field.attribute
        if one.wire_names[0] in bare.attributes and one.type not in (Type.INT, Type.PAGES, Type.INTS):
            continue
        if one.type is Type.INT:
            given[column(one.name)] = 10 + number
        elif one.type is Type.BOOL:
            given[column(one.name)] = True
        elif one.type is Type.PAGES:
            given[column(one.name)] = [5, 6, 7, 2, 9, 10]
        elif one.type is Type.PER_PAGE:
            given[column(one.name)] = [1, 1, 2, 2, 3, 3]
        elif one.type is Type.INTS:
            given[column(one.name)] = [number, 0, 2**31 - 1]
        elif one.type is Type.DIGEST:
            given[column(one.name)] = f"{number:02x}" * 16
        else:
            text = [f"text {number}"] if one.type is Type.TEXTS else f"text {number}"
            given[column(one.name)] = one.choices[-1] if one.choices else text
    renamed = {"leg_ordinal": "ordinal", "tenant_id": "tenant"}
    return make(span.name, **{renamed.get(name, name): value for name, value in given.items()})
