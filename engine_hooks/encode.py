"""Spans to an OTLP message, with a short cut for page lists.

The SDK's encoder makes a Python object of every number; a page list of one oversized request has thousands, and takes
100 times as long as all the rest of its span. Here such lists go into the message as bytes that were worked out once a
number. The message is the same (a test compares).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeGuard

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

_ARRAY_ITEM = b"\x0a"  # ArrayValue.values, field 1, a message
_INT_VALUE = b"\x18"  # AnyValue.int_value, field 3, a varint
_INT64 = (1 << 64) - 1


def encode(spans: Sequence[ReadableSpan]) -> bytes:
    """The OTLP message (ExportTraceServiceRequest) of spans that share one resource."""
    message = encode_spans([_without_numbers(span) for span in spans])
    encoded = [one for resource in message.resource_spans for scope in resource.scope_spans for one in scope.spans]
    for span, target in zip(spans, encoded, strict=True):
        for name, value in (span.attributes or {}).items():
            if _is_numbers(value):
                attribute = target.attributes.add(key=name)
                attribute.value.array_value.SetInParent()  # an empty list is a list too
                attribute.value.array_value.MergeFromString(b"".join(map(_item, value)))
    return bytes(message.SerializeToString())


def _is_numbers(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and not (value and isinstance(value[0], str))


def _without_numbers(span: ReadableSpan) -> ReadableSpan:
    attributes = span.attributes or {}
    if not any(map(_is_numbers, attributes.values())):
        return span
    return ReadableSpan(
        span.name,
        context=span.get_span_context(),
        resource=span.resource,
        attributes={name: value for name, value in attributes.items() if not _is_numbers(value)},
        start_time=span.start_time,
        end_time=span.end_time,
    )


@lru_cache(maxsize=1 << 16)
def _item(number: int) -> bytes:
    """One number as an entry of an ArrayValue."""
    rest = number & _INT64
    varint = bytearray()
    while rest > 0x7F:
        varint.append(rest & 0x7F | 0x80)
        rest >>= 7
    varint.append(rest)
    return _ARRAY_ITEM + bytes([len(varint) + 1]) + _INT_VALUE + varint
