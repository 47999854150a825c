"""How many facts a second one core of the agent takes from the ring to an encoded OTLP message.

CPU time of the process, without compression and network. The baseline is what the same evidence costs with an ordinary
OpenTelemetry SDK tracer in Python: start a span, set the same attributes, end it, encode the batch with the SDK's
encoder. `fragmented` page lists have no two consecutive ids, as after hours of use.
"""

from __future__ import annotations

import random
import tempfile
from array import array
from collections.abc import Callable
from time import process_time

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from engine_hooks.batch import next_batch
from engine_hooks.facts import Fact, unpack_fact
from engine_hooks.recorder import Leg, Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_reader import RingReader
from engine_hooks.spans import SpanSource, wire_attributes

TITLE = "The agent: from the ring to an encoded message"
SECONDS = 1.5
_LEG = Leg(b"u" * 16, b"t" * 16, "p1", "customer")


def run(seconds: float = SECONDS) -> dict[str, float | dict[str, float]]:
    """Rows of spans a second on one core; `seconds` is about how long each is measured."""
    rows: dict[str, float | dict[str, float]] = {}
    for name, (record, most) in _KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            ring = Ring.create(folder, "bench/agent", capacity=32 << 20, lanes=1)
            recorder = Recorder(ring)
            facts = 0
            while facts < most and record(recorder):
                facts += 1
            agent, tracer = _rate(_agent(ring), seconds), _rate(_tracer(ring), seconds)
            rows[name] = {
                "agent (spans/s a core)": agent,
                "SDK tracer (spans/s a core)": tracer,
                "to the tracer": agent / tracer,
            }
            ring.close()
    return rows


def _agent(ring: Ring) -> Callable[[], int]:
    reader = RingReader.open(ring.path)
    source = SpanSource(reader.emitter, reader.boot)

    def drain() -> int:
        """Encode everything in the ring; leaves it there for the next round."""
        snapshot, facts = reader.snapshot(), 0
        while (batch := next_batch(reader, snapshot, source)) is not None:
            facts += batch.last - batch.first + 1
        reader.rewind()
        return facts

    return drain


def _tracer(ring: Ring) -> Callable[[], int]:
    collected: list[ReadableSpan] = []

    class Collect(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            collected.append(span)

    provider = TracerProvider(resource=Resource.create({"service.name": "bench"}))
    provider.add_span_processor(Collect())
    tracer = provider.get_tracer("bench")
    facts = [(fact.span.name, wire_attributes(fact)) for fact in _facts(ring)]

    def trace() -> int:
        for name, attributes in facts:
            with tracer.start_as_current_span(name) as span:
                for key, value in attributes.items():
                    span.set_attribute(key, value)
        done = len(collected)
        for first in range(0, done, 512):  # the SDK's own batch size
            encode_spans(collected[first : first + 512]).SerializeToString()
        collected.clear()
        return done

    return trace


def _facts(ring: Ring) -> list[Fact]:
    reader = RingReader.open(ring.path)
    snapshot = reader.snapshot()
    facts = []
    while (record := reader.next(snapshot)) is not None:
        facts.append(unpack_fact(record))
    return facts


def _rate(work: Callable[[], int], seconds: float) -> float:
    work()  # once to warm up
    start, done = process_time(), 0
    while process_time() - start < seconds:
        done += work()
    return done / (process_time() - start)


def _reads(recorder: Recorder) -> bool:
    return recorder.read(_LEG, phase="first", tokens=1501, row=3, row_generation=9)


def _releases(ids: array[int]) -> Callable[[Recorder], bool]:
    def release(recorder: Recorder) -> bool:
        return recorder.release(
            _LEG, mode="immediate", pages=ids, complete=True, prefix_tokens=0, written_start=1500, written_end=1564
        )

    return release


def _fragmented(count: int) -> array[int]:
    return array("i", random.Random(1).sample(range(0, 100_000, 2), count))


# What is recorded, and how many of it a round has.
_KINDS: dict[str, tuple[Callable[[Recorder], bool], int]] = {
    "a read": (_reads, 4000),
    "94 consecutive pages": (_releases(array("i", range(94))), 4000),
    "94 fragmented pages": (_releases(_fragmented(94)), 2000),
    "4000 fragmented pages": (_releases(_fragmented(4000)), 50),
}


if __name__ == "__main__":
    import sys

    from benchmarks.__main__ import main

    sys.exit(main(["bench_agent"]))
