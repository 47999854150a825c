"""The agent of a simulated host: what it drains becomes the bodies that it would post, in the agent's own encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.sdk.trace import ReadableSpan

from engine_hooks import conventions as c
from engine_hooks.batch import MAX_BODY_BYTES, MAX_FACTS, encode_facts
from engine_hooks.encode import encode
from engine_hooks.facts import Fact, Value, unpack_fact
from engine_hooks.heartbeat import SLACK_NS
from engine_hooks.spans import SpanSource, wire_size
from lab.fleet.bulk import BulkEncoder
from lab.fleet.ring import ClockOf, SimulatedRing

CLOCK_ERROR_NS = 5_000_000
"""How far off an agent's measurement of its clock can be, either way."""


@dataclass(frozen=True, slots=True)
class Posted:
    """One body, and when it was posted (ns since the fleet's start). `boot` is hex; `crashed`: its ring was left by a
    process that died, and this is the end of it."""

    at: int
    emitter: str
    boot: str
    data: bytes
    tail_of_crash: bool = False


class SimulatedAgent:
    """One host's agent. `offset_ns` is what its clock shows less the true time; `measured` what it takes that for."""

    def __init__(
        self, host: str, boot: bytes, clock: ClockOf, measured_ns: int, post: Callable[[Posted], None]
    ) -> None:
        self.host = host
        self._source = SpanSource(f"{host}/agent", boot)
        self._clock = clock
        self._measured = measured_ns
        self._post = post
        self._seq = 0
        self._sources: dict[bytes, SpanSource] = {}

    def drain(self, ring: SimulatedRing, now: int, *, crashed: bool = False) -> None:
        """Post everything that is in the ring."""
        if ring.bulk is not None:
            self._drain_encoded(ring, ring.bulk, now, crashed=crashed)
            return
        records, ring.records = ring.records, []
        source = self._sources.setdefault(ring.boot, SpanSource(ring.emitter, ring.boot))
        spans: list[ReadableSpan] = []
        size = 256
        for record in records:
            span = source.span(unpack_fact(memoryview(record)))
            room = wire_size(span)
            if spans and (size + room > MAX_BODY_BYTES or len(spans) == MAX_FACTS):
                self._post(Posted(now, ring.emitter, ring.boot.hex(), encode(spans)))
                spans, size = [], 256
            spans.append(span)
            size += room
        if spans:
            self._post(Posted(now, ring.emitter, ring.boot.hex(), encode(spans), crashed))

    def _drain_encoded(self, ring: SimulatedRing, bulk: BulkEncoder, now: int, *, crashed: bool) -> None:
        encoded, ring.spans = ring.spans, []
        batch: list[bytes] = []
        size = 256
        for span in encoded:
            if batch and (size + len(span) > MAX_BODY_BYTES or len(batch) == MAX_FACTS):
                self._post(Posted(now, ring.emitter, ring.boot.hex(), bulk.message(batch)))
                batch, size = [], 256
            batch.append(span)
            size += len(span)
        if batch:
            self._post(Posted(now, ring.emitter, ring.boot.hex(), bulk.message(batch), crashed))

    def speak(self, ring: SimulatedRing, now: int, close: str = "open") -> None:
        """Vouch for a ring that was just drained: how far, and how its boot ended if it did."""
        self._seq += 1
        values: dict[str, Value] = {
            c.SUBJECT.name: ring.emitter,
            c.SUBJECT_BOOT.name: ring.boot,
            c.HIGH_WATER.name: ring.seq,
            c.DROPS.name: 0,
            c.HOOK_ERRORS.name: 0,
            c.ATTESTED.name: self._clock() - SLACK_NS,
            c.CLOSE.name: close,
            c.CLOCK_OFFSET.name: -self._measured,
            c.CLOCK_ERROR.name: CLOCK_ERROR_NS,
        }
        fact = Fact(c.EMITTER_STATUS, self._seq, self._clock(), None, values)
        body = encode_facts(self._source, [fact])
        self._post(Posted(now, self._source.emitter, self._source.boot.hex(), body))
