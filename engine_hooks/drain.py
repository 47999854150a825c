"""One ring on its way out: what was read, what is outstanding, whether its writer lives."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from engine_hooks.batch import Batch, next_batch
from engine_hooks.ring_reader import RingReader, Snapshot
from engine_hooks.spans import SpanSource

_log = logging.getLogger(__name__)
HOLE_SECONDS = 5.0
"""How long a living writer may take between numbering a fact and finishing it."""


class Drain:
    """Takes one ring's facts out in batches. Raises ring_format.RingCorruptError from `next` where the ring is
    damaged."""

    def __init__(self, reader: RingReader, clock: Callable[[], float] = time.monotonic) -> None:
        self.reader = reader
        self.emitter = reader.emitter
        self.boot = reader.boot.hex()
        self.blocked_until = 0.0
        """Not before this time (of `clock`): the receiver denied this emitter."""
        self._source = SpanSource(reader.emitter, reader.boot, reader.contract)
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._final = False
        self._stalled_since: float | None = None
        self._errors_told = 0
        self.finished = False
        """The writer is dead and the receiver has everything it left (known after `next` gave None)."""

    @property
    def ending(self) -> bool:
        """The writer is dead, and not everything it left is through."""
        return self._final and not self.finished

    @property
    def outstanding(self) -> bool:
        """Whether facts wait for the receiver's word in the spool."""
        return self.reader.taken > self.reader.acked

    def next(self) -> Batch | None:
        """The next facts, or None if there are none now. Settle each batch with `commit`, `acknowledge` or `rewind`."""
        if self._snapshot is None:
            self._final = not self.reader.writer_alive()  # asked first: then the snapshot holds its last fact
            self._snapshot = self.reader.snapshot()
        batch = next_batch(self.reader, self._snapshot, self._source)
        if batch is not None:
            self._stalled_since = None
            return batch
        if self.reader.exhausted(self._snapshot):
            if not self.outstanding:
                self.reader.attest(self._snapshot.time_ns)
            if not self._final:
                self._snapshot = None
            elif not self.outstanding:
                self._finish()
            return None
        return self._pass_hole(self._snapshot)

    def acknowledge(self, batch: Batch, refused: int) -> None:
        """The receiver has the batch that was read last."""
        self._note_loss(self.reader.acknowledge(batch.first, batch.last, refused=refused, attests_ns=batch.attests_ns))
        self.commit(batch)

    def acknowledge_spooled(self, first: int, last: int, attests_ns: int, refused: int) -> None:
        """The receiver has facts that were spooled."""
        self._note_loss(self.reader.acknowledge(first, last, refused=refused, attests_ns=attests_ns))

    def commit(self, batch: Batch) -> None:
        """The batch that was read last is safe: its space goes back to the writer."""
        self.reader.commit()
        if batch.attests_ns and not self._final:
            self._snapshot = None

    def rewind(self) -> None:
        """The batch that was read last stays in the ring."""
        self.reader.rewind()

    def report_errors(self) -> None:
        """Say once what the hooks of this process swallowed since the last time."""
        errors = self.reader.hook_errors
        if errors > self._errors_told:
            _log.warning("%s: the hooks swallowed %d exceptions (%d in this boot): its evidence has holes",
                         self.emitter, errors - self._errors_told, errors)  # fmt: skip
            self._errors_told = errors

    def give_up_spooled(self) -> None:
        """The spool holds nothing of this ring any more: what is still outstanding was lost with its files."""
        if self.outstanding:
            self._note_loss(self.reader.give_up_taken())

    def _finish(self) -> None:
        self.finished = True
        missing = self.reader.count_missing_end()
        if missing:
            _log.error("%s: closed cleanly, but its last %d facts are not in its ring", self.emitter, missing)

    def _pass_hole(self, snapshot: Snapshot) -> Batch | None:
        """A seq is missing. Wait for it; if it can never come, go on behind it."""
        now = self._clock()
        if self._stalled_since is None:
            self._stalled_since = now
        if self.outstanding:
            return None  # what came before it must be acknowledged first: then one number says how far
        if not self._final and now - self._stalled_since < HOLE_SECONDS:
            self._snapshot = None
            return None
        skipped = self.reader.skip_hole(snapshot, crashed=self._final)
        self._stalled_since = None
        _log.warning("%s: %d facts were numbered but never finished%s", self.emitter, skipped,
                     " when its process died" if self._final else "")  # fmt: skip
        return next_batch(self.reader, snapshot, self._source)

    def _note_loss(self, lost: int) -> None:
        if lost:
            _log.error("%s: %d recorded facts did not reach the store; its legs with holes will be unknown",
                       self.emitter, lost)  # fmt: skip
