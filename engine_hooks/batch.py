"""A batch: consecutive facts of one (emitter, boot) as one OTLP message, small enough for the receiver.

One emitter a message, so that a message has one resource, one token prefix answers for it, and a receiver that refuses
one emitter holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from opentelemetry.sdk.trace import ReadableSpan

from engine_hooks.encode import encode
from engine_hooks.facts import Fact, FactError, unpack_fact
from engine_hooks.ring_format import RingCorruptError
from engine_hooks.ring_reader import RingReader, Snapshot
from engine_hooks.spans import SpanSource, wire_size

MAX_BODY_BYTES = 900_000
"""Largest OTLP message before compression, unless a single fact is larger."""
MAX_FACTS = 2_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Facts `first`..`last` of a boot (hex), encoded. Once they are acknowledged, everything recorded before
    `attests_ns` (unix ns) is; 0 = says nothing."""

    emitter: str
    boot: str
    first: int
    last: int
    body: bytes
    attests_ns: int = 0


def encode_facts(source: SpanSource, facts: Iterable[Fact]) -> bytes:
    """The OTLP message of some facts of one emitter."""
    return encode([source.span(fact) for fact in facts])


def next_batch(reader: RingReader, snapshot: Snapshot, source: SpanSource, limit: int = MAX_BODY_BYTES) -> Batch | None:
    """Read the next facts of the snapshot into one batch; None if there are none. The caller commits or rewinds.

    Facts in front of a damaged record come out first; the damage is raised when it is next. Raises RingCorruptError.
    """
    most = MAX_FACTS
    while True:
        spans, first, complete = _read(reader, snapshot, source, limit, most)
        if not spans:
            return None
        body = encode(spans)
        if len(body) > limit and len(spans) > 1:  # the estimate was too low: take half of it
            reader.rewind()
            most = len(spans) // 2
            continue
        attests = snapshot.time_ns if complete else 0
        return Batch(source.emitter, source.boot.hex(), first, first + len(spans) - 1, body, attests)


def split(body: bytes) -> tuple[bytes, bytes] | None:
    """The two halves of a message, or None if it holds one span or none."""
    message = ExportTraceServiceRequest.FromString(body)
    flat = [
        (resource, scope, span)
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    if len(flat) < 2:
        return None
    middle = len(flat) // 2
    return _message(flat[:middle]), _message(flat[middle:])


def describe(body: bytes) -> str:
    """Which facts a message holds, for a log line: names and seqs, no values."""
    message = ExportTraceServiceRequest.FromString(body)
    spans = [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]
    seqs = [
        attribute.value.int_value for span in spans for attribute in span.attributes if attribute.key.endswith(".seq")
    ]
    return (
        f"{', '.join(sorted({span.name for span in spans}))} (seq {', '.join(map(str, seqs[:5]))}, {len(body)} bytes)"
    )


def _message(flat: list[tuple[ResourceSpans, ScopeSpans, Span]]) -> bytes:
    message = ExportTraceServiceRequest()
    last: ResourceSpans | None = None
    for resource, _, span in flat:
        if resource is not last:
            message.resource_spans.add().resource.CopyFrom(resource.resource)
            message.resource_spans[-1].scope_spans.add()
            last = resource
        message.resource_spans[-1].scope_spans[0].spans.append(span)
    return bytes(message.SerializeToString())


def _read(
    reader: RingReader, snapshot: Snapshot, source: SpanSource, limit: int, most: int
) -> tuple[list[ReadableSpan], int, bool]:
    """Spans of consecutive facts that make about `limit` bytes, the seq of the first, whether nothing is left."""
    spans: list[ReadableSpan] = []
    first = 0
    size = 256
    record: memoryview | None = None
    try:
        while len(spans) < most:
            record = reader.next(snapshot)
            if record is None:
                break
            fact = unpack_fact(record, reader.contract)
            span = source.span(fact)
            size += wire_size(span)
            if spans and size > limit:
                reader.push_back(record)
                return spans, first, False
            spans.append(span)
            first = first or fact.seq
            record = None
        return spans, first, reader.exhausted(snapshot)
    except (FactError, RingCorruptError) as error:
        if not spans:
            if isinstance(error, RingCorruptError):
                raise
            raise RingCorruptError(f"{reader.path.name}: {error}") from error
        if record is not None:
            reader.push_back(record)
        return spans, first, False
