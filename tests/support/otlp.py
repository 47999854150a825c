"""Builders of valid evidence, as OTLP: one call a fact, and one for the export request that carries some of them.

    body = export(
        fact("pagewitness.request.admission", seq=1, ordinal=1, admission_state="rejected", tokens_need=900),
        fact("pagewitness.request.end", seq=2, ordinal=2, end_state="rejected", leg_facts=2),
    )

An attribute is named by its column (`engine_hooks.conventions.column`): `tokens_need` is `pagewitness.tokens.need`.
`pages` is a list of page ids in token order. What a span of its variant must carry and the caller did not name gets a
plain default; what it may leave out is left out. `without` and `extra` take the *wire* names and make a fact bad.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from engine_hooks import conventions
from engine_hooks.conventions import Attribute, Span, Type

EMITTER = "host1/decode-31001-tp0"
BOOT = "b0" * 16
UID = "1e" * 16
TENANT = "aa" * 16
TIME_NS = 1_790_000_000_000_000_000  # 21 September 2026, 14:13:20 UTC; fact n of a boot is n milliseconds later


@dataclass(frozen=True)
class Fact:
    """One fact as it goes on the wire. `attributes` maps wire names to plain values: int, bool, str or a list."""

    span: str
    emitter: str
    boot: str
    uid: str
    time_ns: int
    attributes: Mapping[str, Any]

    def but(self, without: Iterable[str] = (), extra: Mapping[str, Any] | None = None) -> Fact:
        """The same fact without these wire attributes and with those."""
        kept = {name: value for name, value in self.attributes.items() if name not in set(without)}
        return replace(self, attributes={**kept, **(extra or {})})


def fact(
    span_name: str,
    *,
    emitter: str = EMITTER,
    boot: str = BOOT,
    seq: int = 1,
    uid: str | bytes = UID,
    ordinal: int = 1,
    tenant: str = TENANT,
    time_ns: int | None = None,
    without: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    **named: Any,
) -> Fact:
    """A valid fact of this span. Raises KeyError for an attribute that the contract does not put on it.

    `uid`, `ordinal` and `tenant` matter for facts of a leg only; another fact's trace id comes from (emitter, boot).
    """
    span = conventions.SPANS_BY_NAME[span_name]
    given: dict[str, Any] = {conventions.SEQ.name: seq}
    if span.leg:
        given |= {conventions.ORDINAL.name: ordinal, conventions.TENANT.name: tenant}
        if tenant != conventions.UNATTRIBUTED:
            given[conventions.TENANT_KEY.name] = "k1"
    by_column = {conventions.column(field.attribute.name): field.attribute for field in conventions.fields_of(span)}
    for column, value in named.items():
        if column not in by_column:
            raise KeyError(f"{span_name} has no attribute with the column {column}")
        if value is not None:
            given[by_column[column].name] = value
    _fill_in(span, given)
    leg = uid.hex() if isinstance(uid, bytes) else uid
    return Fact(
        span=span_name,
        emitter=emitter,
        boot=boot,
        uid=leg if span.leg else hashlib.blake2b(f"{emitter}|{boot}".encode(), digest_size=16).hexdigest(),
        time_ns=TIME_NS + seq * 1_000_000 if time_ns is None else time_ns,
        attributes=_on_the_wire(span, given),
    ).but(without, extra)


def message(*facts: Fact, contract: int = conventions.CONTRACT_VERSION) -> ExportTraceServiceRequest:
    """The export request that carries these facts, one `resource_spans` for each (emitter, boot), facts in order."""
    request = ExportTraceServiceRequest()
    spans_of: dict[tuple[str, str], Any] = {}
    for one in facts:
        if (one.emitter, one.boot) not in spans_of:
            group = request.resource_spans.add()
            group.resource.attributes.extend(
                [
                    attribute(conventions.SERVICE_NAME.name, "pagewitness-hooks"),
                    attribute(conventions.EMITTER.name, one.emitter),
                    attribute(conventions.BOOT.name, one.boot),
                    attribute(conventions.CONTRACT.name, contract),
                ]
            )
            spans_of[one.emitter, one.boot] = group.scope_spans.add().spans
        spans_of[one.emitter, one.boot].append(otlp_span(one))
    return request


def export(*facts: Fact, contract: int = conventions.CONTRACT_VERSION) -> bytes:
    """:func:`message`, serialised: the body of a POST to `/v1/traces`."""
    body: bytes = message(*facts, contract=contract).SerializeToString()
    return body


def otlp_span(one: Fact) -> OtlpSpan:
    """The OTLP span of one fact; its span id is the first 8 bytes of a digest of its identity."""
    identity = f"{one.emitter}|{one.boot}|{one.attributes.get(conventions.SEQ.name)}"
    return OtlpSpan(
        trace_id=bytes.fromhex(one.uid),
        span_id=hashlib.blake2b(identity.encode(), digest_size=8).digest(),
        name=one.span,
        start_time_unix_nano=one.time_ns,
        end_time_unix_nano=one.time_ns,
        attributes=[attribute(name, value) for name, value in one.attributes.items()],
    )


def attribute(name: str, value: Any) -> KeyValue:
    """One OTLP attribute from a plain value."""
    return KeyValue(key=name, value=_any_value(value))


def run_lengths(pages: Iterable[int]) -> tuple[list[int], list[int]]:
    """Page ids in token order as runs of consecutive ids: their first ids, and their lengths."""
    starts: list[int] = []
    lengths: list[int] = []
    for page in pages:
        if starts and page == starts[-1] + lengths[-1]:
            lengths[-1] += 1
        else:
            starts.append(page)
            lengths.append(1)
    return starts, lengths


def _any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, bytes):
        return AnyValue(bytes_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    made = AnyValue()
    made.array_value.SetInParent()  # an empty list is an array, not a missing value
    made.array_value.values.extend(_any_value(each) for each in value)
    return made


def _fill_in(span: Span, given: dict[str, Any]) -> None:
    if span.variant is not None:
        given.setdefault(span.variant.name, _default(span.variant))
    variant = None if span.variant is None else given[span.variant.name]
    for field in conventions.fields_of(span):
        if field.is_required(variant):
            given.setdefault(field.attribute.name, _default(field.attribute))


def _default(one: Attribute) -> Any:
    match one.type:
        case Type.INT:
            return 1
        case Type.BOOL:
            return True
        case Type.ENUM:
            return one.choices[0]
        case Type.DIGEST:
            return hashlib.blake2b(one.name.encode(), digest_size=16).hexdigest()
        case Type.TEXT:
            return conventions.column(one.name)
        case Type.TEXTS:
            return [conventions.column(one.name)]
        case Type.PAGES:
            return [7]


def _on_the_wire(span: Span, given: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for field in conventions.fields_of(span):
        name = field.attribute.name
        if name in given and field.attribute.type is Type.PAGES:
            wire |= dict(zip(field.attribute.wire_names, run_lengths(given[name]), strict=True))
        elif name in given:
            wire[name] = given[name]
    return wire
