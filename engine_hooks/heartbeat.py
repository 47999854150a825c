"""The agent's word on each ring it drains: how far, what was lost, whether its writer lives."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import count

from engine_hooks import conventions as c
from engine_hooks.batch import Batch, encode_facts
from engine_hooks.clock_offset import ClockOffset
from engine_hooks.drain import Drain
from engine_hooks.engine_count import EngineCounts
from engine_hooks.facts import Fact, Value
from engine_hooks.spans import SpanSource

SLACK_NS = 50_000_000
"""A fact gets its time just before it becomes visible; a thread may be stopped for a moment in between."""


class Heartbeats:
    """Makes `pagewitness.emitter` facts under the agent's own emitter, boot and seq."""

    def __init__(
        self, emitter: str, clock_offset: ClockOffset | None = None, counts: EngineCounts | None = None
    ) -> None:
        self._source = SpanSource(emitter, os.urandom(16))
        self._seq = count(1)
        self._clock_offset = clock_offset or ClockOffset()
        self._counts = counts or EngineCounts(())

    def batch(self, drains: Sequence[Drain]) -> Batch:
        """One message with a heartbeat for each ring. A finished ring's says how its boot ended."""
        facts = [Fact(c.EMITTER_STATUS, next(self._seq), time.time_ns(), None, self._values(drain)) for drain in drains]
        body = encode_facts(self._source, facts)
        return Batch(self._source.emitter, self._source.boot.hex(), facts[0].seq, facts[-1].seq, body)

    def _values(self, drain: Drain) -> dict[str, Value]:
        values = _values(drain)
        offset = self._clock_offset.estimate()
        if offset is not None:
            values[c.CLOCK_OFFSET.name], values[c.CLOCK_ERROR.name] = offset
        attested = drain.reader.attested_ns - SLACK_NS
        requests = self._counts.requests(
            drain.emitter, drain.boot, attested, alive=not (drain.ending or drain.finished)
        )
        if requests is not None:
            values[c.ENGINE_REQUESTS.name] = requests
        if drain.finished:
            self._counts.forget(drain.boot)
        return values


def _values(drain: Drain) -> dict[str, Value]:
    reader = drain.reader
    close = "open"
    if drain.finished:
        close = "clean" if reader.closed else "crashed"
    return {
        c.SUBJECT.name: reader.emitter,
        c.SUBJECT_BOOT.name: reader.boot,
        c.HIGH_WATER.name: reader.high_water,
        c.DROPS.name: reader.drops + reader.lost,
        c.HOOK_ERRORS.name: reader.hook_errors,
        c.ATTESTED.name: reader.attested_ns - SLACK_NS,
        c.CLOSE.name: close,
    }
