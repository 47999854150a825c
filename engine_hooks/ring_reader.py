"""The agent's end of a ring: read facts in seq order, remember how far, tell a dead writer from a living one.

Facts come out in the order of their seq, over all lanes. A seq that is not there yet while a later one is (its thread
is in the middle of writing it) holds the later ones back, so "everything up to seq n" is always one number.

What is read is only a proposal until :meth:`RingReader.commit`; :meth:`RingReader.rewind` takes it back.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import platform
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from engine_hooks import ring_format as f
from engine_hooks.conventions import CONTRACT_VERSION
from engine_hooks.facts import ALIGN, HEADER, HEADER_SEQ

_SIZE = struct.Struct("@I")
# Where stores of another core can become visible out of order, give a cursor's record time to arrive before it is read.
_SETTLE_SECONDS = 0.0 if platform.machine() in ("x86_64", "AMD64", "i686") else 0.002


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was in the ring at one time: unix ns taken *before* the write cursors were read, and the cursors."""

    time_ns: int
    cursors: tuple[int, ...]


class RingReader:
    """One ring as its agent sees it. Make it with :meth:`open`. Not for two threads."""

    def __init__(self, path: Path, descriptor: int, memory: mmap.mmap) -> None:
        self.path = path
        self._descriptor = descriptor
        self._memory = memory
        self._view = memoryview(memory)
        self._words = self._view.cast("Q")
        self._dead = False
        self.emitter, self.boot = f.read_text(self._view)
        self.contract = self._words[f.W_CONTRACT]
        self.created_ns = self._words[f.W_CREATED]
        self.pid = self._words[f.W_PID]
        self._spans = [
            f.LaneSpan(self._words[f.lane_word(lane) + f.L_BASE], self._words[f.lane_word(lane) + f.L_SIZE])
            for lane in range(self._words[f.W_LANES])
        ]
        if self._spans != f.divide(self._words[f.W_CAPACITY], len(self._spans)):
            raise f.RingCorruptError(f"{path.name}: the lanes do not fill the ring")
        self._expected = 0
        self._lane = 0
        self._positions: list[int] = []
        self.rewind()

    @classmethod
    def open(cls, path: str | Path) -> RingReader:
        """Open a ring file. Raises RingCorruptError if it is not an intact ring, RingError if it is one that this
        version cannot read, OSError if it cannot be opened (a link is not followed)."""
        path = Path(path)
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return cls(path, descriptor, _map(path, descriptor))
        except BaseException:
            os.close(descriptor)
            raise

    # ------------------------------------------------------------------ the writer's side of the header

    @property
    def closed(self) -> bool:
        """Whether the writer ended this boot cleanly."""
        return bool(self._words[f.W_CLOSED])

    @property
    def drops(self) -> int:
        """Facts that the writer dropped."""
        return self._words[f.W_STRAY_DROPS] + self._lane_sum(f.L_DROPS)

    @property
    def hook_errors(self) -> int:
        """Exceptions that the hook boundary swallowed."""
        return self._words[f.W_STRAY_ERRORS] + self._lane_sum(f.L_ERRORS)

    def writer_alive(self) -> bool:
        """Whether the writer still holds its lock and has not closed the ring. Once False, always False."""
        if self._dead:
            return False
        if self.closed:
            self._dead = True
        elif self.boot not in f.LIVE:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
            self._dead = True
        return not self._dead

    # ------------------------------------------------------------------ the agent's side of the header

    @property
    def taken(self) -> int:
        """Every fact up to this seq was acknowledged or lies in the synced spool."""
        return max(self._words[f.A_TAKEN], self._words[f.A_ACKED])

    @property
    def acked(self) -> int:
        """The receiver acknowledged every fact up to this seq, but for those counted as lost."""
        return self._words[f.A_ACKED]

    @property
    def high_water(self) -> int:
        """As `acked`, but it never passes a seq that died with the writer."""
        hole = self._words[f.A_HOLE]
        return min(self.acked, hole - 1) if hole else self.acked

    @property
    def attested_ns(self) -> int:
        """Everything recorded before this time was acknowledged (unix ns)."""
        return self._words[f.A_ATTESTED]

    @property
    def lost(self) -> int:
        """Facts that were recorded and did not arrive: refused by the receiver, or damaged in the spool."""
        return self._words[f.A_LOST]

    def acknowledge(self, first: int, last: int, *, refused: int = 0, attests_ns: int = 0) -> int:
        """The receiver has facts first..last, but for `refused` of them. Returns how many facts were found lost: a
        distance from what was acknowledged before is a loss too. `attests_ns`: see :meth:`attest`."""
        lost = refused + (max(first - self.acked - 1, 0) if last > self.acked else 0)
        self._words[f.A_LOST] += lost
        self._words[f.A_ACKED] = max(self.acked, last)
        self.attest(attests_ns)
        return lost

    def give_up_taken(self) -> int:
        """What was taken and not acknowledged is lost. Returns how many facts that are."""
        lost = self.taken - self.acked
        self._words[f.A_LOST] += lost
        self._words[f.A_ACKED] = self.taken
        return lost

    def attest(self, time_ns: int) -> None:
        """Nothing recorded before this time (unix ns) is outstanding."""
        self._words[f.A_ATTESTED] = max(self.attested_ns, time_ns)

    # ------------------------------------------------------------------ facts

    @property
    def fill(self) -> float:
        """How full the fullest lane is, 0 to 1."""
        return max(
            (self._words[f.lane_word(lane) + f.L_WRITE] - self._words[f.read_word(lane)]) / span.size
            for lane, span in enumerate(self._spans)
        )

    def snapshot(self) -> Snapshot:
        """What is in the ring now. Raises RingCorruptError if the file shrank or a cursor is impossible."""
        if os.fstat(self._descriptor).st_size != len(self._memory):
            raise f.RingCorruptError(f"{self.path.name} was cut while in use")
        before = time.time_ns()
        cursors = tuple(self._words[f.lane_word(lane) + f.L_WRITE] for lane in range(len(self._spans)))
        for lane, (cursor, span) in enumerate(zip(cursors, self._spans, strict=True)):
            if not 0 <= cursor - self._words[f.read_word(lane)] <= span.size or cursor % ALIGN:
                raise f.RingCorruptError(f"{self.path.name}: the cursors of lane {lane} contradict each other")
        if _SETTLE_SECONDS:
            time.sleep(_SETTLE_SECONDS)
        return Snapshot(before, cursors)

    def next(self, snapshot: Snapshot) -> memoryview | None:
        """The record of the next seq, or None where the snapshot holds no more (see :meth:`exhausted`).

        The bytes are the ring's own: valid until :meth:`commit`. Raises RingCorruptError.
        """
        for lane in range(len(self._spans)):
            while (record := self._head(lane, snapshot)) is not None:
                seq: int = HEADER.unpack_from(record)[HEADER_SEQ]
                if seq > self._expected:
                    break
                self._positions[lane] += len(record)
                self._lane = lane
                if seq == self._expected:
                    self._expected += 1
                    return record
                # Below it: taken before, by an agent that died between two cursors.
        return None

    def exhausted(self, snapshot: Snapshot) -> bool:
        """Whether every fact of the snapshot was read. False after `next` gave None: a seq is missing."""
        return all(self._head(lane, snapshot) is None for lane in range(len(self._spans)))

    def push_back(self, record: memoryview) -> None:
        """Take back the latest `next`, whose record this is."""
        self._positions[self._lane] -= len(record)
        self._expected -= 1

    def skip_hole(self, snapshot: Snapshot, *, crashed: bool) -> int:
        """Give up on the missing seq: go on at the lowest one there is. Returns how many seqs were skipped.

        `crashed` = they died with the writer, and the high-water mark stays below them. Otherwise they count as lost.
        Only when everything before them is acknowledged and nothing read is uncommitted.
        """
        heads = [record for lane in range(len(self._spans)) if (record := self._head(lane, snapshot)) is not None]
        if not heads:
            return 0
        missing = self._expected
        self._expected = min(HEADER.unpack_from(record)[HEADER_SEQ] for record in heads)
        if not crashed:
            self._words[f.A_LOST] += self._expected - missing
        elif not self._words[f.A_HOLE]:
            self._words[f.A_HOLE] = missing
        self._words[f.A_ACKED] = self._words[f.A_TAKEN] = self._expected - 1
        return self._expected - missing

    def count_missing_end(self) -> int:
        """How many facts a cleanly closed boot numbered beyond the last one that was read; counts them as lost."""
        missing = max(self._words[f.W_LAST_SEQ] - self.taken, 0) if self.closed else 0
        if missing:
            self._words[f.A_LOST] += missing
            self._words[f.A_TAKEN] = self._words[f.A_ACKED] = self._words[f.W_LAST_SEQ]
        return missing

    def commit(self) -> None:
        """What was read is safe elsewhere: give its space back to the writer."""
        self._words[f.A_TAKEN] = self._expected - 1  # first: a repeat is harmless, a lost number is not
        for lane, position in enumerate(self._positions):
            self._words[f.read_word(lane)] = position

    def rewind(self) -> None:
        """Take back what was read since the last commit."""
        self._expected = self.taken + 1
        self._positions = [self._words[f.read_word(lane)] for lane in range(len(self._spans))]

    def close(self) -> None:
        """Let go of the file. A process that writes the same ring loses its lock by this: POSIX locks work so."""
        self._words.release()
        self._view.release()
        with contextlib.suppress(BufferError):  # a record is still held somewhere: the memory goes with that
            self._memory.close()
        os.close(self._descriptor)

    def _head(self, lane: int, snapshot: Snapshot) -> memoryview | None:
        """The first unread record of a lane. Steps over a wrap mark."""
        span = self._spans[lane]
        position, end = self._positions[lane], snapshot.cursors[lane]
        while position < end:
            place = position % span.size
            size: int = _SIZE.unpack_from(self._view, span.base + place)[0]
            if size == f.WRAP:
                position += span.size - place
                self._positions[lane] = position
                continue
            if size < HEADER.size or size % ALIGN or place + size > span.size or position + size > end:
                raise f.RingCorruptError(f"{self.path.name}: lane {lane} holds a record of {size} bytes at {position}")
            return self._view[span.base + place : span.base + place + size]
        return None

    def _lane_sum(self, word: int) -> int:
        return sum(self._words[f.lane_word(lane) + word] for lane in range(len(self._spans)))


def _map(path: Path, descriptor: int) -> mmap.mmap:
    """The file in memory, once its fixed numbers are known to be those of a ring that this version reads."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size < f.HEADER_BYTES:
        raise f.RingCorruptError(f"{path.name} has {status.st_size} bytes: too short for a ring")
    memory = mmap.mmap(descriptor, status.st_size)
    words = memoryview(memory).cast("Q")
    if words[f.W_MAGIC] != f.MAGIC:
        raise f.RingCorruptError(f"{path.name} does not begin like a ring")
    if words[f.W_VERSION] != f.RING_VERSION or not 1 <= words[f.W_CONTRACT] <= CONTRACT_VERSION:
        raise f.RingError(
            f"{path.name} was written with ring version {words[f.W_VERSION]} and contract {words[f.W_CONTRACT]}, "
            f"this agent reads ring version {f.RING_VERSION} and contracts 1 to {CONTRACT_VERSION}; "
            "run an agent that is at least as new as the engine's hooks"
        )
    if words[f.W_CAPACITY] + f.HEADER_BYTES != status.st_size or not 1 <= words[f.W_LANES] <= f.MAX_LANES:
        raise f.RingCorruptError(f"{path.name} has {status.st_size} bytes, its header says otherwise")
    return memory
