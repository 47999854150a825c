"""A ring in memory, with a clock that is not this machine's. The recorder and the layout of facts are the real ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from engine_hooks.facts import HEADER, Layout
from engine_hooks.ring import Ring
from lab.fleet.bulk import BulkEncoder

ClockOf = Callable[[], int]
"""Unix time in ns, as the host's clock shows it."""


class SimulatedRing(Ring):
    """Takes facts from a `Recorder` as a ring does: same records, same seqs. Nothing is dropped."""

    def __init__(self, emitter: str, boot: bytes, clock: ClockOf, *, bulk: bool) -> None:
        self.emitter = emitter
        self.boot = boot
        self.closed = False
        self.records: list[bytearray] = []  # not drained yet
        self.spans: list[bytes] = []  # the same, encoded: where there is a bulk encoder
        self.bulk = BulkEncoder(emitter, boot) if bulk else None
        self.seq = 0
        self._clock = clock

    def append(
        self, layout: Layout, traffic: int, values: Sequence[object], text: bytes = b"", pages: memoryview | None = None
    ) -> bool:
        """As `Ring.append`; always True."""
        tail = b"" if pages is None else pages.tobytes()
        if self.bulk is not None:
            self.seq += 1
            self.spans.append(self.bulk.span(layout, traffic, values, text, tail, self.seq, self._clock()))
            return True
        size = (layout.tail + len(text) + len(tail) + 7) & -8 if text or pages is not None else layout.size
        record = bytearray(size)
        layout.pack_into(record, HEADER.size, *values)
        if text or tail:
            record[layout.tail : layout.tail + len(text) + len(tail)] = text + tail
        self.seq += 1
        HEADER.pack_into(record, 0, size, layout.code, traffic, self.seq, self._clock())
        self.records.append(record)
        return True

    @property
    def last_seq(self) -> int:
        """How many facts were recorded so far."""
        return self.seq

    def count_error(self) -> None:
        """An engine must not notice an error of the recorder; a simulation must. Raises what was swallowed."""
        raise RuntimeError(f"{self.emitter}: a fact could not be recorded") from sys.exc_info()[1]

    def close(self) -> None:
        """Say that this boot ends cleanly."""
        self.closed = True
