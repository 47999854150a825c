"""Builders of valid evidence, as OTLP: one call a fact, and one for the export request that carries some of them.

    body = export(
        fact("pagewitness.request.admission", seq=1, ordinal=1, admission_state="rejected", tokens_need=900),
        fact("pagewitness.request.end", seq=2, ordinal=2, end_state="rejected", leg_facts=2),
    )

An attribute is named by its column (`engine_hooks.conventions.column`): `tokens_need` is `pagewitness.tokens.need`.
`pages` is a list of page ids in token order, and `page_generation` one number for each of them. What a span of its
variant must carry and the caller did not name gets a plain default; what it may leave out is left out. `without` and
`extra` take the *wire* names and make a fact bad.
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

    `uid` and `ordinal` matter for facts of a leg only, `tenant` for those and deliveries; another fact's trace id comes
    from (emitter, boot). A fact that may belong to no leg belongs to none with `uid=""`.
    """
    span = conventions.SPANS_BY_NAME[span_name]
    given: dict[str, Any] = {conventions.SEQ.name: seq}
    of_leg = span.leg and bool(uid)
    if of_leg:
        given |= {conventions.ORDINAL.name: ordinal, conventions.TRAFFIC.name: conventions.TRAFFIC.choices[0]}
    if of_leg or span is conventions.DELIVERY_FACT:
        given[conventions.TENANT.name] = tenant
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
        uid=leg if of_leg else hashlib.blake2b(f"{emitter}|{boot}".encode(), digest_size=16).hexdigest(),
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
    runs = _runs((page, 0) for page in pages)
    return [run[0] for run in runs], [run[1] for run in runs]


def _runs(pages: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Pages with a number each as runs of consecutive pages with the same number: first, length, number."""
    runs: list[list[int]] = []
    for page, number in pages:
        if runs and page == runs[-1][0] + runs[-1][1] and number == runs[-1][2]:
            runs[-1][1] += 1
        else:
            runs.append([page, 1, number])
    return runs


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
        case Type.PER_PAGE | Type.INTS:
            return [1]


def _on_the_wire(span: Span, given: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    for one in (field.attribute for field in conventions.fields_of(span)):
        if one.name not in given or one.type is Type.PER_PAGE:
            continue
        if one.type is not Type.PAGES:
            wire[one.name] = given[one.name]
            continue
        counts = given.get(conventions.GENERATION.name)
        runs = _runs((page, counts[place] if counts else 0) for place, page in enumerate(given[one.name]))
        wire |= {name: [run[part] for run in runs] for part, name in enumerate(one.wire_names)}
        if counts is not None:
            wire[conventions.GENERATION.name] = [run[2] for run in runs]
    return wire
