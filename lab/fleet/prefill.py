"""A prefill node: admits or rejects, computes in chunks, sends each chunk as whole pages, and lets go at the end."""

from __future__ import annotations

from lab.fleet.clock import MILLISECOND, SECOND
from lab.fleet.job import Job
from lab.fleet.node import HOP, Node, World
from lab.fleet.pages import NO_PAGES

TOKENS_PER_SECOND = 40_000
LANDING = 2 * MILLISECOND
"""What a chunk takes from the queue to the decode pool."""
PLACEHOLDER = 1
"""Tokens of the prompt that the engine puts in the place of one that it rejected."""
ABORTED = 500
_LATE = ("commit_before_arrival", "landed_said_too_soon")
"""Faults in which the last chunk is late."""


class PrefillNode(Node):
    """One prefill node."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, "prefill", number)

    def admit(self, job: Job) -> None:
        """The request arrives."""
        self.jobs.add(job)
        job.prefill_leg = self.facts.leg(job)
        job.prefill_uid = job.prefill_leg.uid
        job.prefill_state = "waiting"
        if job.prompt <= self.world.spec.prefill_limit:
            self.facts.admitted(job, job.prefill_leg)
            return
        self.facts.rejected(job, job.prefill_leg)
        if self._strikes("reject_placeholder", job):
            job.placeholder = True
            return
        self.facts.answered(job.prefill_leg, "abort", job.prompt, 0, 400)
        self._over(job, "rejected")
        self.world.clock.after(HOP, job.decode.transfer_failed, job)

    def told(self, job: Job) -> None:
        """Decode says where to write."""
        if job.prefill_state != "waiting" or not self.up:
            return
        size = self.pool.page_size
        pages = -(-job.prompt // size) - job.decode_prefix // size
        self.facts.told(job, job.prefill_leg, pages, job.decode_prefix)
        job.prefill_state = "queued"
        self._queue.append(job)
        self._fill()

    def abort(self, job: Job) -> None:
        """The client went away. A leg that computes ends at its next chunk."""
        if job.prefill_state in ("waiting", "queued"):
            if job.prefill_state == "queued":
                self._queue.remove(job)
            self.facts.answered(job.prefill_leg, "abort", job.prompt, 0, ABORTED)
            self._over(job, "aborted")

    def stop(self, close: str) -> None:
        """The process ends with requests inside; decode is told that nothing will come."""
        for job in sorted(self.jobs, key=lambda one: one.index):
            if close == "clean":
                self._fail(job)
            job.prefill_state = "over"
            job.landings = 0
            self.world.clock.after(HOP, job.decode.transfer_failed, job)
        self.jobs.clear()
        self._queue.clear()
        super().stop(close)

    def _fail(self, job: Job) -> None:
        leg = job.prefill_leg
        if len(job.prefill_pages):
            self.facts.concluded(leg, "send", landed=False)
            computed = job.prefill_computed
            self.facts.released(leg, "immediate", job.prefill_pages, job.prefill_cached, job.prefill_cached, computed)
        self.facts.answered(leg, "abort", job.prompt, 0, ABORTED)
        self.facts.ended(leg, "failed", job.queued_pages, job.queued_tokens)

    # ------------------------------------------------------------------ computing

    def tokens(self, job: Job) -> int:
        """Tokens that the node computes for the request."""
        return PLACEHOLDER if job.placeholder else job.prompt

    def _fill(self) -> None:
        while self._queue:
            job = self._queue[0]
            tokens = self.tokens(job)
            found = self.take([] if job.placeholder else job.runs, tokens, tokens - 1)
            if found is None:
                return
            self._queue.popleft()
            job.prefill_pages, job.prefill_cached, job.prefill_used = found
            job.prefill_state = "computing"
            cached = job.prefill_computed = job.prefill_cached
            job.prefill_tainted = bool(cached) and bool(self.pool.content(job.prefill_pages, cached)[2].any())
            if cached:
                self.facts.matched(job, job.prefill_leg, cached)
            self._next_chunk(job, cached)

    def _next_chunk(self, job: Job, start: int) -> None:
        end = min(start + self.world.spec.chunk_tokens, self.tokens(job))
        delay = (end - start) * SECOND // TOKENS_PER_SECOND + MILLISECOND
        self.world.clock.after(delay, self._computed, job, start, end, self.boots)

    def _computed(self, job: Job, start: int, end: int, boot: int) -> None:
        if boot != self.boots or job.prefill_state != "computing":
            return
        last = end == self.tokens(job)
        if job.aborted and not job.deferred:
            self._let_go(job, start, finished=False)
            return
        self.pool.write(job.prefill_pages, start, end, job.number, tainted=job.prefill_tainted)
        job.prefill_computed = end
        if last and self._strikes("abort_continue", job):
            self._let_go(job, end, finished=False)
            self.world.clock.after(HOP, job.decode.transfer_complete, job, False)
            return
        self._send(job, start, end, last=last)
        if last:
            job.prefill_state = "sent"
            if job.landings and self._strikes("landed_said_too_soon", job):
                job.concluded = True
                self.facts.concluded(job.prefill_leg, "send", landed=True)
                self.world.clock.after(HOP, job.decode.transfer_complete, job, True)
            elif job.landings and self._strikes("commit_before_arrival", job):
                self.world.clock.after(HOP, job.decode.transfer_complete, job, False)
            self._conclude_when_landed(job, end, boot)
        else:
            self._next_chunk(job, end)

    def _send(self, job: Job, start: int, end: int, *, last: bool) -> None:
        """Queue what was computed, from where decode's own prefix ends."""
        size = self.pool.page_size
        begin = job.decode_prefix if start <= max(job.decode_prefix, job.prefill_cached) else start
        if end <= begin or self._drops_chunk(job, start):
            return
        first, behind = begin // size, -(-end // size)
        pages = job.prefill_pages[first:behind]
        offset = job.decode_prefix // size
        total = -(-self.tokens(job) // size) - offset
        self.facts.queued(job.prefill_leg, pages, first - offset, end - begin, total, last=last)
        job.queued_pages += len(pages)
        job.queued_tokens += end - begin
        job.landings += 1
        delay = LANDING
        if last and any(self._strikes(fault, job) for fault in _LATE):
            delay += int(self.world.faults.draw("late by", job.index) * SECOND / 4) + 4 * HOP
        self.world.clock.after(delay, self._landed, job, begin, end, self.boots, job.decode.boots)

    def _landed(self, job: Job, begin: int, end: int, boot: int, decode_boot: int) -> None:
        if boot != self.boots or not self.up:  # the process is gone, and with it all that was under way
            return
        job.landings -= 1
        if decode_boot == job.decode.boots and job.decode.up:
            size = self.pool.page_size
            pages = job.prefill_pages[begin // size : -(-end // size)]
            job.decode.receive(job, begin // size, self.pool, pages, end - begin)

    def _conclude_when_landed(self, job: Job, end: int, boot: int) -> None:
        if boot != self.boots or job.prefill_state != "sent":
            return
        if job.landings:
            self.world.clock.after(HOP, self._conclude_when_landed, job, end, boot)
            return
        self._let_go(job, end, finished=True)
        self.world.clock.after(HOP, job.decode.transfer_complete, job, True)

    def _let_go(self, job: Job, end: int, *, finished: bool) -> None:
        """The leg gives up its pages, at the earliest when nothing is read from them any more."""
        if job.landings:
            job.prefill_state = "sent"
            self.world.clock.after(HOP, self._let_go_later, job, end, finished, self.boots)
            return
        leg, cached = job.prefill_leg, job.prefill_cached
        if not job.concluded:
            self.facts.concluded(leg, "send", landed=finished)
        self.facts.released(leg, "immediate", job.prefill_pages, cached, cached, max(cached, end))
        if finished:
            self.facts.answered(leg, "length", self.tokens(job), 1)
        else:
            self.facts.answered(leg, "abort", job.prompt, 0, ABORTED)
        publish = self.tokens(job) if finished and not job.placeholder else 0
        self.give(job.runs, job.prefill_pages, cached, job.prefill_used, publish)
        job.prefill_pages = NO_PAGES
        self._over(job, "finished" if finished else "aborted")
        self._fill()

    def _let_go_later(self, job: Job, end: int, finished: bool, boot: int) -> None:
        if boot == self.boots:
            self._let_go(job, end, finished=finished)

    def _over(self, job: Job, state: str) -> None:
        self.facts.ended(job.prefill_leg, state, job.queued_pages, job.queued_tokens)
        job.prefill_state = "over"
        self.jobs.discard(job)
        job.decode.prefill_is_over(job)

    # ------------------------------------------------------------------ faults

    def _strikes(self, fault: str, job: Job) -> bool:
        return self.world.faults.strike(fault, job.index, self.world.clock.now / SECOND)

    def _drops_chunk(self, job: Job, start: int) -> bool:
        if not self._strikes("short_transfer", job):
            return False
        tokens = self.tokens(job) - job.prefill_cached
        chunks = max(1, -(-tokens // self.world.spec.chunk_tokens))
        lost = int(self.world.faults.draw("which chunk", job.index) * chunks)
        return (start - job.prefill_cached) // self.world.spec.chunk_tokens == lost
