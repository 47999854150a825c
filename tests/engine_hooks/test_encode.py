"""The short cut for page lists gives the message that the SDK's encoder gives."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from engine_hooks import conventions as c
from engine_hooks.encode import encode
from engine_hooks.facts import Value
from tests.engine_hooks.test_facts import span_values
from tests.engine_hooks.test_spans import SOURCE, a_fact


def in_one_order(message: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.attributes.sort(key=lambda attribute: attribute.key)
    return message


@given(st.lists(span_values(), min_size=1, max_size=5))
def test_a_message_is_what_the_sdk_would_have_made(examples: list[tuple[c.Span, dict[str, Value]]]) -> None:
    spans = [SOURCE.span(a_fact(*example, seq=seq)) for seq, example in enumerate(examples, start=1)]

    ours = ExportTraceServiceRequest.FromString(encode(spans))

    assert in_one_order(ours) == in_one_order(encode_spans(spans))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=30))
def test_any_page_ids_survive(pages: list[int]) -> None:
    spans = [SOURCE.span(a_fact(c.PAGE_RELEASE, {c.PAGES.name: array("i", pages)}))]

    ours = ExportTraceServiceRequest.FromString(encode(spans))

    assert in_one_order(ours) == in_one_order(encode_spans(spans))
