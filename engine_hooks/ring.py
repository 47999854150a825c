"""The writer's end of a ring: all that a recording thread of the engine touches.

A fact is packed straight into a memory-mapped file that outlives the process. Each recording thread has a lane of its
own, so that no lock is needed; one counter, atomic under the interpreter's lock, numbers the facts of all lanes.
Nothing here blocks: where there is no room, the fact is dropped and counted, and takes no seq.

The file's space is reserved when it is made: a full file system refuses the ring then, instead of killing the engine
with SIGBUS later. Put the directory on a memory file system (/dev/shm or /run): on a disk a page fault can wait for
I/O.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import sys
import time
import weakref
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from struct import Struct
from threading import get_ident
from time import time_ns

from engine_hooks import ring_format as f
from engine_hooks.conventions import CONTRACT_VERSION
from engine_hooks.facts import HEADER, Layout
from engine_hooks.ring_format import RingCorruptError, RingError
from engine_hooks.ring_reader import RingReader

__all__ = ["DEFAULT_LANES", "Ring", "RingCorruptError", "RingError", "RingReader"]

DEFAULT_LANES = 8
_WRAP = Struct("@I")
_HEADER_BYTES = HEADER.size
_pack_header = HEADER.pack_into
_RECLAIM_SECONDS = 1.0
_CLOSE_WAIT_SECONDS = 0.1


class _Lane:
    """A lane as its one writing thread sees it. A record at cursor `write` lies at `write + shift` in the file."""

    __slots__ = (
        "base",
        "busy",
        "drops",
        "errors",
        "most",
        "read_word",
        "shift",
        "size",
        "until",
        "write",
        "write_word",
    )

    def __init__(self, number: int, span: f.LaneSpan) -> None:
        self.base = self.shift = span.base
        self.size = span.size
        self.most = span.size // 2  # a longer record might never fit, wherever the cursor stands
        self.write = 0
        self.until = 0  # up to here there is room, as last looked up
        self.busy = False
        self.write_word = f.lane_word(number) + f.L_WRITE
        self.drops = f.lane_word(number) + f.L_DROPS
        self.errors = f.lane_word(number) + f.L_ERRORS
        self.read_word = f.read_word(number)


class Ring:
    """A ring of this process. Make it with :meth:`create`; share it between all threads."""

    def __init__(self, path: Path, boot: bytes, memory: mmap.mmap, descriptor: int, spans: list[f.LaneSpan]) -> None:
        self.path = path
        self.boot = boot
        self._memory = memory
        self._words = memoryview(memory).cast("Q")
        self._free = [_Lane(number, span) for number, span in enumerate(spans)][::-1]
        self._lanes: dict[int, _Lane] = {}
        self._seq = count(1)
        self._stray_drops = count(1)
        self._stray_errors = count(1)
        self._open = True
        self._owned = True
        self._next_reclaim = 0.0
        self._release = weakref.finalize(self, os.close, descriptor)  # closing the file gives up the lock
        f.LIVE[boot] = self
        _rings.add(self)

    @classmethod
    def create(cls, directory: str | Path, emitter: str, capacity: int = 32 << 20, lanes: int = DEFAULT_LANES) -> Ring:
        """Make `<directory>/<emitter>-<boot>.ring` (mode 0600) with `capacity` bytes for facts, and lock it for life.

        Raises RingError if the emitter's name, the directory or the space does not allow it.
        """
        f.check_emitter(emitter)
        spans = f.divide(capacity, lanes)
        boot = os.urandom(16)
        folder = Path(directory)
        path = folder / f.file_name(emitter, boot)
        # Under another name until it is locked and complete: the agent must not take it for a dead or broken ring.
        unfinished = folder / f".{path.name}{f.UNFINISHED_SUFFIX}"
        descriptor = -1
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(descriptor, 0, f.HEADER_BYTES + capacity)
            memory = mmap.mmap(descriptor, f.HEADER_BYTES + capacity, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
            _write_header(memory, emitter, boot, capacity, spans)
            unfinished.rename(path)
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
                unfinished.unlink(missing_ok=True)
            raise RingError(
                f"cannot make a ring of {capacity >> 20} MiB for {emitter} in {folder}: {error.strerror}; "
                "check that PAGEWITNESS_RING_DIR exists, is writable and has the space"
            ) from error
        return cls(path, boot, memory, descriptor, spans)

    def append(
        self, layout: Layout, traffic: int, values: Sequence[object], text: bytes = b"", pages: memoryview | None = None
    ) -> bool:
        """Record one fact: `values` for the layout's struct, then the tails: all text, then page ids (contiguous).

        Returns whether it is in the ring. Never blocks. Raises what packing raises (struct.error, TypeError), before
        a seq is taken. A signal handler that records in the middle of this call is refused, and counted as a drop.
        """
        lane = self._lanes.get(get_ident()) or self._assign()
        if lane is None or lane.busy:
            return self._drop(lane)
        lane.busy = True
        try:
            size = layout.size
            if text or pages is not None:
                size = (layout.tail + len(text) + (0 if pages is None else pages.nbytes) + 7) & -8
            if lane.write + size > lane.until and not self._make_room(lane, size):
                return self._drop(lane)
            memory = self._memory
            at = lane.write + lane.shift
            layout.pack_into(memory, at + _HEADER_BYTES, *values)
            if text or pages is not None:
                tail = at + layout.tail
                text_end = tail + len(text)
                memory[tail:text_end] = text
                if pages is not None:
                    memory[text_end : text_end + pages.nbytes] = pages
            end = lane.write + size
            for seq in self._seq:  # noqa: B007 - not next(): after a call, a signal handler can raise, and the seq is lost
                break
            try:
                _pack_header(memory, at, size, layout.code, traffic, seq, time_ns())
                lane.write = end
                self._words[lane.write_word] = end
            except BaseException:
                # Only a signal handler of the engine can raise here. The seq is taken: publish, then let it pass.
                _pack_header(memory, at, size, layout.code, traffic, seq, time_ns())
                lane.write = end
                self._words[lane.write_word] = end
                raise
            return True
        finally:
            lane.busy = False

    @property
    def last_seq(self) -> int:
        """How many facts were recorded so far; facts of other threads may be added while this is read."""
        following = repr(self._seq)  # a counter shows its next number no other way, but for a deprecated one
        return int(following[len("count(") : -1]) - 1

    def count_drop(self) -> None:
        """Say that facts are missing which nobody could hand in: from here back, the evidence has a hole."""
        self._drop(self._lanes.get(get_ident()))

    def count_error(self) -> None:
        """Count an exception that the hook boundary swallowed."""
        lane = self._lanes.get(get_ident())
        if lane is not None:
            self._words[lane.errors] += 1
        elif self._owned:
            self._words[f.W_STRAY_ERRORS] = next(self._stray_errors)

    def close(self) -> None:
        """Say that this boot ends cleanly. Later facts are refused. May be called twice."""
        if not (self._open and self._owned):
            return
        self._open = False
        lanes = list(self._lanes.values())
        self._lanes.clear()
        deadline = time.monotonic() + _CLOSE_WAIT_SECONDS
        while any(lane.busy for lane in lanes) and time.monotonic() < deadline:
            time.sleep(0.001)  # another thread is in the middle of a fact
        self._words[f.W_LAST_SEQ] = next(self._seq) - 1
        self._words[f.W_CLOSED] = 1
        f.LIVE.pop(self.boot, None)
        self._release()

    def _make_room(self, lane: _Lane, size: int) -> bool:
        """Look up how far the agent has read, and begin a new lap where the record does not fit into this one."""
        if size > lane.most:
            return False
        free_until = self._words[lane.read_word] + lane.size
        lap_end = lane.write - lane.write % lane.size + lane.size
        if lane.write + size > lap_end:
            if lap_end + size > free_until:
                return False
            if lane.write < lap_end:  # published together with the record that follows it
                _WRAP.pack_into(self._memory, lane.write + lane.shift, f.WRAP)
            lane.write = lap_end
            lane.shift = lane.base - lap_end
            lap_end += lane.size
        elif lane.write + size > free_until:
            return False
        lane.until = min(free_until, lap_end)
        return True

    def _assign(self) -> _Lane | None:
        """A lane for the calling thread, or None if all are taken by living threads (or the ring is not ours)."""
        if not self._open:
            return None
        if not self._free:
            self._reclaim()
        try:
            lane = self._free.pop()
        except IndexError:
            return None
        self._lanes[get_ident()] = lane
        return lane

    def _reclaim(self) -> None:
        now = time.monotonic()
        if now < self._next_reclaim:
            return
        self._next_reclaim = now + _RECLAIM_SECONDS
        alive = sys._current_frames()
        for ident in [ident for ident in self._lanes if ident not in alive]:
            lane = self._lanes.pop(ident, None)  # one of two racing threads gets it
            if lane is not None:
                self._free.append(lane)

    def _drop(self, lane: _Lane | None) -> bool:
        if lane is not None:
            self._words[lane.drops] += 1
        elif self._owned:
            self._words[f.W_STRAY_DROPS] = next(self._stray_drops)
        return False

    def _disown(self) -> None:
        """In a forked child: the ring belongs to the parent, and nothing may be written into it."""
        self._open = False
        self._owned = False
        self._lanes.clear()
        self._free.clear()


def _write_header(memory: mmap.mmap, emitter: str, boot: bytes, capacity: int, spans: list[f.LaneSpan]) -> None:
    view = memoryview(memory)
    words = view.cast("Q")
    words[f.W_MAGIC] = f.MAGIC
    words[f.W_VERSION] = f.RING_VERSION
    words[f.W_CONTRACT] = CONTRACT_VERSION
    words[f.W_CAPACITY] = capacity
    words[f.W_LANES] = len(spans)
    words[f.W_PID] = os.getpid()
    words[f.W_CREATED] = words[f.A_ATTESTED] = time_ns()  # before this time there was nothing to record
    for number, span in enumerate(spans):
        words[f.lane_word(number) + f.L_BASE] = span.base
        words[f.lane_word(number) + f.L_SIZE] = span.size
    f.write_text(view, emitter, boot)


_rings: weakref.WeakSet[Ring] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for ring in list(_rings):
        ring._disown()
    with contextlib.suppress(KeyError):
        f.LIVE.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
