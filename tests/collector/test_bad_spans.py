"""A bad span in a good request is not stored, and counted with a reason in our own words; the rest is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.store import Handle, Store
from engine_hooks.conventions import SPANS, Span, Type, column, fields_of
from tests.collector.conftest import Rows
from tests.support.otlp import Fact, attribute, export, message

Made = Callable[..., Fact]
Rejects = Callable[[], dict[int | None, str]]

ADMISSION = "pagewitness.request.admission"
TRANSFER = "pagewitness.transfer"
READ = "pagewitness.page.read"
RELEASE = "pagewitness.page.release"
CONFIG = "pagewitness.node.config"
STARTS, LENGTHS = "pagewitness.pages.start", "pagewitness.pages.length"


def broken(one: Fact, **changes: Any) -> bytes:
    """The request with one span, changed as protobuf."""
    request = message(one)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for name, value in changes.items():
        setattr(span, name, value)
    body: bytes = request.SerializeToString()
    return body


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.name)
def test_each_attribute_that_a_span_must_have_is_missed(span: Span, store: Store, made: Made, rejects: Rejects) -> None:
    variants = span.variant.choices if span.variant else ("",)
    bad: list[Fact] = []
    expected: dict[int | None, str] = {}
    for variant in variants:
        for name in required_names(span, variant):
            seq = len(bad) + 1
            chosen = {column(span.variant.name): variant} if span.variant else {}
            bad.append(made(span.name, seq=seq, without=[name], **chosen))
            expected[None if name == "pagewitness.seq" else seq] = f"missing_attribute:{name}"
    receipt = store.insert_otlp(export(*bad))
    assert (receipt.stored, receipt.rejected) == (0, len(bad))
    assert rejects() == expected


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.name)
def test_each_attribute_of_another_type_is_refused(span: Span, store: Store, made: Made, rejects: Rejects) -> None:
    bad: list[Fact] = []
    expected: dict[int | None, str] = {}
    for field in fields_of(span):
        for name in field.attribute.wire_names:
            for value in of_another_type(field.attribute.type):
                seq = len(bad) + 1
                bad.append(made(span.name, seq=seq, extra={name: value}))
                expected[None if name == "pagewitness.seq" else seq] = f"wrong_type:{name}"
    assert store.insert_otlp(export(*bad)).stored == 0
    assert rejects() == expected


@pytest.mark.parametrize(
    ("span", "name", "value"),
    [
        pytest.param(ADMISSION, "pagewitness.admission.state", "perhaps", id="a word that is not on the list"),
        pytest.param(ADMISSION, "pagewitness.admission.state", "", id="no word"),
        pytest.param(ADMISSION, "pagewitness.traffic", "admitted", id="a word of another attribute"),
        pytest.param(ADMISSION, "tenant.id", "acme", id="a tenant's name"),
        pytest.param(ADMISSION, "tenant.id", "AA" * 16, id="a pseudonym in capitals"),
        pytest.param(ADMISSION, "tenant.id", "", id="no tenant"),
        pytest.param(ADMISSION, "pagewitness.rid", "ab" * 15, id="a short digest"),
        pytest.param(ADMISSION, "pagewitness.rid", "ab" * 17, id="a long digest"),
        pytest.param(ADMISSION, "pagewitness.rid", "xy" * 16, id="a digest that is not hex"),
        pytest.param(ADMISSION, "pagewitness.rid", "unattributed", id="a word where only digits may be"),
        pytest.param(ADMISSION, "pagewitness.tokens.need", -1, id="a negative count"),
        pytest.param(ADMISSION, "pagewitness.leg.ordinal", 0, id="ordinal 0"),
        pytest.param(CONFIG, "pagewitness.engine.version", "x" * 513, id="a long text"),
        pytest.param(CONFIG, "pagewitness.hooks.missing", ["fine", "x" * 513], id="a long text in a list"),
    ],
)
def test_a_value_that_cannot_be_is_refused(
    span: str, name: str, value: Any, store: Store, made: Made, rejects: Rejects
) -> None:
    assert store.insert_otlp(export(made(span, extra={name: value}))).stored == 0
    assert rejects() == {1: f"bad_value:{name}"}


@pytest.mark.parametrize("seq", [0, -1])
def test_a_seq_below_one_is_refused(seq: int, store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(export(made(READ, seq=seq))).stored == 0
    assert list(rejects().values()) == ["bad_value:pagewitness.seq"]


@pytest.mark.parametrize(
    ("starts", "lengths", "blamed"),
    [
        pytest.param([1, 5], [1], STARTS, id="more starts than lengths"),
        pytest.param([1], [1, 5], STARTS, id="more lengths than starts"),
        pytest.param([], [1], LENGTHS, id="lengths of nothing"),
        pytest.param([1, -1], [1, 1], STARTS, id="a negative page"),
        pytest.param([2**31], [1], STARTS, id="a page id beyond int32"),
        pytest.param([1], [-3], LENGTHS, id="a negative run"),
        pytest.param([1, 5], [1, 0], "pagewitness.pages", id="an empty run"),
        pytest.param([1], [10_000_001], "pagewitness.pages", id="a run beyond any pool"),
        pytest.param([1, 1], [6_000_000, 6_000_000], "pagewitness.pages", id="more pages than any pool"),
    ],
)
def test_page_lists_that_cannot_be_are_refused(
    starts: list[int], lengths: list[int], blamed: str, store: Store, made: Made, rejects: Rejects
) -> None:
    bad = made(RELEASE, extra={STARTS: starts, LENGTHS: lengths})
    assert store.insert_otlp(export(bad)).stored == 0
    assert rejects() == {1: f"bad_value:{blamed}"}


@pytest.mark.parametrize("name", [STARTS, LENGTHS])
@pytest.mark.parametrize("value", [["7"], [7, "8"], [True], [7, [8]]])
def test_a_page_list_of_something_else_is_refused(
    name: str, value: list[Any], store: Store, made: Made, rejects: Rejects
) -> None:
    assert store.insert_otlp(export(made(RELEASE, extra={name: value}))).stored == 0
    assert rejects() == {1: f"wrong_type:{name}"}


def test_an_unknown_span_is_refused_and_not_named(store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(broken(made(READ), name="somebody.elses.span")).stored == 0
    assert rejects() == {None: "unknown_span"}  # nor is its seq one of ours


@pytest.mark.parametrize("trace_id", [b"", b"\x01" * 15, b"\x01" * 17, bytes(16)])
def test_a_trace_id_that_is_no_uid_is_refused(trace_id: bytes, store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(broken(made(READ), trace_id=trace_id)).stored == 0
    assert rejects() == {1: "bad_value:trace_id"}


@pytest.mark.parametrize("time_ns", [0, 2**63, 2**64 - 1])
def test_a_time_that_cannot_be_is_refused(time_ns: int, store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(broken(made(READ), start_time_unix_nano=time_ns)).stored == 0
    assert rejects() == {1: "bad_value:start_time_unix_nano"}


@pytest.mark.parametrize(("name", "value"), [("pagewitness.read.tokens", 5), ("somebody.elses", "x")])
def test_an_attribute_that_comes_twice_makes_the_span_bad(
    name: str, value: Any, store: Store, made: Made, rejects: Rejects
) -> None:
    request = message(made(READ))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.extend([attribute(name, value)] * 2)
    assert store.insert_otlp(request.SerializeToString()).stored == 0
    assert rejects() == {1: "duplicate_attribute"}


def test_good_spans_beside_a_bad_one_are_stored(store: Store, made: Made, facts: Rows, rejects: Rejects) -> None:
    bad = made(READ, seq=2, without=["tenant.id"])
    receipt = store.insert_otlp(export(made(READ, seq=1), bad, made(READ, seq=3)))
    assert (receipt.stored, receipt.rejects) == (2, {"missing_attribute:tenant.id": 1})
    assert [row["seq"] for row in facts("seq")] == [1, 3]
    assert rejects() == {2: "missing_attribute:tenant.id"}


@pytest.mark.parametrize("name", ["somebody.elses", "gen_ai.prompt", "pagewitness.finish", "pagewitness.boot"])
def test_a_span_is_stored_without_an_attribute_that_it_may_not_have(
    name: str, store: Store, made: Made, facts: Rows, rejects: Rejects
) -> None:
    receipt = store.insert_otlp(export(made(READ, extra={name: "stop"})))
    assert (receipt.stored, receipt.rejected, receipt.rejects) == (1, 0, {"unknown_attribute": 1})
    assert facts("seq, finish") == [{"seq": 1, "finish": ""}]
    assert rejects() == {1: "unknown_attribute"}


def test_an_unknown_attribute_does_not_change_what_a_fact_says(store: Store, made: Made, facts: Rows) -> None:
    store.insert_otlp(export(made(READ)))
    store.insert_otlp(export(made(READ, extra={"somebody.elses": 1})))
    assert facts("contents") == [{"contents": 1}]


def test_a_reject_says_of_whom_and_how_large(store: Store, made: Made, handle: Handle, boot: str) -> None:
    store.insert_otlp(export(made(READ, emitter="host1/x", without=["tenant.id"], extra={"other": "x" * 1000})))
    (row,) = handle.rows("SELECT * FROM evidence_rejects WHERE boot = {boot:String}", {"boot": boot})
    assert (row["emitter"], row["seq"], row["unknown_attributes"]) == ("host1/x", 1, 1)
    assert 1000 < row["size"] < 5000


def test_a_receipt_tells_the_sender_what_was_refused_and_why(store: Store, made: Made) -> None:
    bad = made(READ, seq=2, without=["tenant.id"])
    receipt = store.insert_otlp(export(made(READ, extra={"other": 1}), bad))
    assert str(receipt) == (
        "1 of 2 spans refused: 1 missing_attribute:tenant.id; "
        "1 spans stored without attributes that the contract does not have"
    )


def test_a_request_of_bad_spans_only_stores_nothing(store: Store, made: Made, facts: Rows) -> None:
    request = ExportTraceServiceRequest.FromString(export(made(READ)))
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.extend([spans[0]] * 99)
    for span in spans:
        span.ClearField("attributes")
    assert store.insert_otlp(request.SerializeToString()).rejects == {"missing_attribute:pagewitness.seq": 100}
    assert facts("seq") == []


def required_names(span: Span, variant: str) -> list[str]:
    """Wire names that a span of this variant must have, but for those whose absence makes it another variant."""
    return [
        name for field in fields_of(span) if field.is_required(variant or None) for name in field.attribute.wire_names
    ]


def of_another_type(kind: Type) -> list[Any]:
    """Values that an attribute of this type must not have."""
    others: dict[str, Any] = {"int": 5, "bool": True, "text": "word", "array": ["word"], "double": 1.5, "bytes": b"x"}
    arrays = dict.fromkeys((Type.TEXTS, Type.PAGES, Type.PER_PAGE, Type.INTS), "array")
    own = {Type.INT: "int", Type.BOOL: "bool", **arrays}.get(kind, "text")
    return [value for name, value in others.items() if name != own]
