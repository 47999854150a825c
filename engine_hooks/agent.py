"""The side process of a host: rings -> spans -> receiver, with a disk spool for when the receiver is away.

It is never a child of the engine, holds no engine lock, and may be killed and restarted at any time: what was not
acknowledged or synced to the spool is still in the rings, and a repeat changes nothing at the receiver.

A pass of the loop gives each source its turn: the spool's oldest messages, one message of each ring, the heartbeats
that are due. While the receiver is away, rings go to the spool; afterwards a ring waits until its spooled facts are
through.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine_hooks.batch import Batch
from engine_hooks.drain import Drain
from engine_hooks.exporter import Exporter
from engine_hooks.heartbeat import Heartbeats
from engine_hooks.ring_format import SUFFIX, UNFINISHED_SUFFIX, RingCorruptError, RingError
from engine_hooks.ring_reader import RingReader
from engine_hooks.spool import Spool
from engine_hooks.transport import Outcome

_log = logging.getLogger(__name__)
SPOOL_AFTER_SECONDS = 2.0
"""A shorter outage is sat out in the rings; also the pause between two rounds of spooling."""
URGENT_FILL = 0.5
"""A ring as full as this goes to the spool at once."""
DENIED_SECONDS = 30.0
STOP_SECONDS = 10.0
_SCAN_SECONDS = 0.5
_SPOOL_BURST = 16
_STALE_SECONDS = 60.0


class Agent:
    """Drains every ring in a directory. One thread; see :meth:`run`."""

    def __init__(
        self,
        ring_directory: Path,
        exporter: Exporter,
        spool: Spool,
        heartbeats: Heartbeats,
        *,
        heartbeat_seconds: float,
        poll_seconds: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = ring_directory
        self._exporter, self._spool, self._heartbeats = exporter, spool, heartbeats
        self._heartbeat_seconds, self._poll_seconds, self._clock = heartbeat_seconds, poll_seconds, clock
        self._drains: dict[Path, Drain] = {}
        self._told: set[Path] = set()
        self._next_scan = self._next_beat = self._next_spooling = 0.0
        self._beat_blocked_until = 0.0
        self._first = 0
        self._spool_failed: set[str] = set()
        self._spool_full_told = False
        self._unsent_beat: tuple[Batch, list[Drain]] | None = None
        self.posted = 0
        """Facts that the receiver acknowledged since the start (heartbeats not counted)."""
        self.set_aside = 0  # corrupt rings since the start

    def run(self, stop: threading.Event) -> None:
        """Drain until `stop` is set, then send or spool what is there, and a last heartbeat for each ring."""
        while not stop.is_set():
            if not self.step():
                stop.wait(self._poll_seconds)
        self.settle(STOP_SECONDS)

    def step(self) -> bool:
        """One pass. Returns whether anything moved."""
        self._scan()
        now = self._clock()
        spooling = self._exporter.outage_seconds >= SPOOL_AFTER_SECONDS and now >= self._next_spooling
        if spooling:
            self._next_spooling = now + SPOOL_AFTER_SECONDS
        sources: list[Callable[[], bool]] = [
            self._send_spool,
            *(partial(self._serve, drain, spooling) for drain in self._drains.values()),
            self._beat,
        ]
        first = self._first
        if self._exporter.wait_seconds == 0:
            self._first = 0
        moved = False
        for place in (number % len(sources) for number in range(first, first + len(sources))):
            ready = self._exporter.wait_seconds == 0
            moved |= sources[place]()
            if ready and self._exporter.wait_seconds > 0:
                # The next attempt is another source's: a message that always fails holds up only its own.
                self._first = place + 1
        return moved

    def settle(self, seconds: float) -> bool:
        """Send everything recorded before this call and a last heartbeat for each ring.

        What the receiver does not take within `seconds` goes to the spool, or stays in its ring where that is full.
        Returns whether the receiver has it all: not after a ring was corrupt.
        """
        called_ns = time.time_ns()
        deadline = self._clock() + seconds
        self._next_scan = 0.0
        while True:
            moved = self.step()
            behind = len(self._spool) or any(
                drain.ending or (drain.reader.attested_ns < called_ns and not drain.finished)
                for drain in self._drains.values()
            )
            if not behind or self._clock() >= deadline:
                break
            if not moved:
                time.sleep(min(self._poll_seconds, 0.02))
        if behind:
            for drain in list(self._drains.values()):
                self._guarded(drain, self._spool_ring)
        self._beat(all_rings=True)
        return not behind and self._unsent_beat is None and not self._told and not self.set_aside

    # ------------------------------------------------------------------ finding rings

    def _scan(self) -> None:
        now = self._clock()
        if now < self._next_scan:
            return
        self._next_scan = now + _SCAN_SECONDS
        try:
            paths = sorted(self._directory.iterdir())
        except OSError as error:
            self._tell_once(self._directory, f"cannot list {self._directory}: {error}")
            return
        self._told.discard(self._directory)
        for path in paths:
            if path.name.endswith(SUFFIX) and path not in self._drains and path not in self._told:
                self._open(path)
            elif path.name.endswith(SUFFIX + UNFINISHED_SUFFIX):
                _remove_stale(path)

    def _open(self, path: Path) -> None:
        try:
            drain = Drain(RingReader.open(path), self._clock)
        except RingCorruptError as error:
            self._set_aside(path, error)
        except (RingError, OSError) as error:
            self._tell_once(path, f"cannot read the ring {path.name}: {error}")
        else:
            self._drains[path] = drain
            _log.info("%s: draining boot %s", drain.emitter, drain.boot)

    def _set_aside(self, path: Path, error: RingCorruptError) -> None:
        drain = self._drains.pop(path, None)
        if drain is not None:
            drain.reader.close()
        self.set_aside += 1
        aside = path.with_name(path.name + ".corrupt")
        _log.error(
            "%s; what it still held is lost, and its emitter is no longer attested. Kept as %s", error, aside.name
        )
        try:
            path.rename(aside)
        except OSError as failure:
            self._tell_once(path, f"cannot rename {path}: {failure}")

    def _tell_once(self, path: Path, message: str) -> None:
        if path not in self._told:
            _log.error("%s", message)
        self._told.add(path)

    # ------------------------------------------------------------------ sending

    def _send_spool(self) -> bool:
        moved = False
        blocked = {drain.boot for drain in self._drains.values() if drain.blocked_until > self._clock()}
        for _ in range(_SPOOL_BURST):
            if self._exporter.wait_seconds > 0:
                break
            entry = self._spool.oldest(without=blocked | self._spool_failed) or self._spool.oldest(without=blocked)
            if entry is None:
                break
            body = self._spool.read(entry)
            if body is None:
                continue
            delivery = self._exporter.deliver_compressed(body, entry.emitter)
            drain = next((one for one in self._drains.values() if one.boot == entry.boot), None)
            self._spool_failed = set() if delivery.outcome is Outcome.OK else {entry.boot}
            if delivery.outcome is Outcome.OK:
                if drain is not None:
                    drain.acknowledge_spooled(entry.first, entry.last, entry.attests_ns, delivery.refused)
                self.posted += entry.last - entry.first + 1 - delivery.refused
                self._spool.remove(entry)
                moved = True
            elif delivery.outcome is Outcome.DENIED:
                blocked.add(entry.boot)  # for this pass, or for longer if its ring is still there
                if drain is not None:
                    drain.blocked_until = self._clock() + DENIED_SECONDS
        return moved

    def _serve(self, drain: Drain, spooling: bool) -> bool:
        """A ring's turn: one message to the receiver, or all it has to the spool, or nothing."""
        if drain.reader.path not in self._drains:
            return False  # finished and let go earlier in this pass
        drain.report_errors()
        away = self._exporter.wait_seconds > 0
        waits = self._spool.holds(drain.boot) or drain.blocked_until > self._clock()
        if (away and spooling) or ((away or waits) and drain.reader.fill >= URGENT_FILL):
            return self._guarded(drain, self._spool_ring)
        return not away and not waits and self._guarded(drain, self._send_one)

    def _guarded(self, drain: Drain, action: Callable[[Drain], bool]) -> bool:
        try:
            return action(drain)
        except RingCorruptError as error:
            self._set_aside(drain.reader.path, error)
            return False

    def _send_one(self, drain: Drain) -> bool:
        drain.give_up_spooled()
        batch = drain.next()
        if batch is None:
            return False
        delivery = self._exporter.deliver(batch.body, drain.emitter)
        if delivery.outcome is Outcome.OK:
            drain.acknowledge(batch, delivery.refused)
            self.posted += batch.last - batch.first + 1 - delivery.refused
            return True
        drain.rewind()
        if delivery.outcome is Outcome.DENIED:
            drain.blocked_until = self._clock() + DENIED_SECONDS
        return False

    def _spool_ring(self, drain: Drain) -> bool:
        moved = False
        while (batch := drain.next()) is not None:
            if not self._spool.put(batch):
                drain.rewind()
                if not self._spool_full_told:
                    self._spool_full_told = True
                    _log.error("the spool takes no more: facts stay in the rings, which drop new ones when full; "
                               "raise PAGEWITNESS_SPOOL_BYTES or bring the receiver back")  # fmt: skip
                break
            self._spool_full_told = False
            drain.commit(batch)
            moved = True
        return moved

    # ------------------------------------------------------------------ heartbeats

    def _beat(self, *, all_rings: bool = False) -> bool:
        if self._unsent_beat is not None and not self._post_beat():
            return False
        now = self._clock()
        due = all_rings or now >= self._next_beat
        drains = [drain for drain in self._drains.values() if due or drain.finished]
        if not drains or self._exporter.wait_seconds > 0 or self._beat_blocked_until > now:
            return False
        if due:
            self._next_beat = now + self._heartbeat_seconds
        self._unsent_beat = self._heartbeats.batch(drains), [drain for drain in drains if drain.finished]
        return self._post_beat() and any(drain.finished for drain in drains)

    def _post_beat(self) -> bool:
        if self._unsent_beat is None or self._exporter.wait_seconds > 0 or self._beat_blocked_until > self._clock():
            return False
        batch, finished = self._unsent_beat
        delivery = self._exporter.deliver(batch.body, batch.emitter)
        if delivery.outcome is not Outcome.OK:
            if delivery.outcome is Outcome.DENIED:
                self._beat_blocked_until = self._clock() + DENIED_SECONDS
            return False
        self._unsent_beat = None
        for drain in finished:
            _log.info("%s: boot %s is drained and %s", drain.emitter, drain.boot,
                      "closed" if drain.reader.closed else "crashed")  # fmt: skip
            self._drains.pop(drain.reader.path, None)
            drain.reader.path.unlink(missing_ok=True)
            drain.reader.close()
        return True


def _remove_stale(path: Path) -> None:
    """Delete a ring whose process died while making it."""
    try:
        if time.time() - path.stat().st_mtime < _STALE_SECONDS:
            return
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
    except OSError:
        return  # gone, or still being made: the next scan looks again
