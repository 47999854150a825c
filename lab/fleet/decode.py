"""A decode node: reserves pages, waits for the transfer, commits, attends and writes step by step, and lets go."""

from __future__ import annotations

from lab.fleet.clock import MILLISECOND
from lab.fleet.job import Job
from lab.fleet.node import HOP, Node, World
from lab.fleet.node_facts import EVIDENCE_KEY
from lab.fleet.pages import NO_PAGES, PagePool, Pages

STEP = 20 * MILLISECOND
ABORTED = 500


class DecodeNode(Node):
    """One decode node."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, "decode", number)

    def admit(self, job: Job) -> None:
        """The request arrives."""
        self.jobs.add(job)
        job.decode_leg = self.facts.leg(job)
        job.leg_uids.append(job.decode_leg.uid)
        self.facts.admitted(job, job.decode_leg)
        job.decode_state = "queued"
        self._queue.append(job)
        self.fill()

    def fill(self) -> None:
        """Give pages to those who wait for them, first come first served."""
        while self._queue:
            job = self._queue[0]
            if not (self._resume(job) if job.backup is not None else self._reserve(job)):
                return
            self._queue.popleft()

    def _reserve(self, job: Job) -> bool:
        found = self.take(job.runs, job.prompt + job.steps, job.prompt - 1)
        if found is None:
            return False
        job.decode_pages, job.decode_prefix, job.cache_used = found
        job.reused = job.decode_prefix
        size = self.pool.page_size
        wanted = job.decode_pages[job.decode_prefix // size : -(-job.prompt // size)]
        job.destination = EVIDENCE_KEY.pages(wanted.tobytes())
        job.decode_state = "waiting"
        self.facts.reserved(job, job.decode_leg, wanted, job.decode_prefix)
        self.world.clock.after(HOP, job.prefill.told, job)
        return True

    def receive(self, job: Job, first: int, source: PagePool, source_pages: Pages, tokens: int) -> None:
        """A chunk lands in the pages that were reserved for it, whatever the request is doing by now."""
        pages = job.decode_pages[first : first + len(source_pages)]
        done = self._steps_done(job) if job.decode_state == "decoding" else 0
        if done:
            self._attend(job, job.prompt + done)
        self.pool.receive(pages, source, source_pages, job.number, tokens)

    def transfer_complete(self, job: Job, told: bool) -> None:
        """The transfer is said to be complete; `told`: by prefill, in a word of its own."""
        if told and job.decode_state == "decoding" and not job.told_complete and self.up:
            job.told_complete = True
            self.facts.concluded(job.decode_leg, "receive", landed=True)
        if job.decode_state != "waiting" or not self.up:
            return
        if job.deferred:
            self._give_up(job)
            return
        if told:
            job.told_complete = True
            self.facts.concluded(job.decode_leg, "receive", landed=True)
        self.facts.committed(job.decode_leg, job.prompt)
        job.decode_state = "decoding"
        job.first_step = self.world.clock.now + STEP // 4
        self.world.clock.at(job.first_step, self._first_step, job, self.boots)

    def transfer_failed(self, job: Job) -> None:
        """Prefill says that nothing will come, or is not there any more."""
        if job.decode_state == "queued" and job.backup is None and self.up:
            self._queue.remove(job)
            self.facts.answered(job.decode_leg, "abort", job.prompt, 0, ABORTED)
            self._over(job, "failed")
        elif job.decode_state == "waiting" and self.up:
            self.facts.concluded(job.decode_leg, "receive", landed=False)
            self.facts.refused(job.decode_leg)
            if not job.deferred:
                self.facts.answered(job.decode_leg, "abort", job.prompt, 0, ABORTED)
            self._give_up(job)

    # ------------------------------------------------------------------ steps

    def _first_step(self, job: Job, boot: int) -> None:
        if boot != self.boots or job.decode_state != "decoding":
            return
        left = job.steps - job.steps_before
        if left == 0:
            self._finish(job, boot)
            return
        start = job.prompt + job.steps_before
        self.world.truth.readers += not job.read
        job.read = True
        self.world.truth.observe(job, self.pool, start)
        job.written = start
        self.facts.read(job.decode_leg, "first", start + 1, job.slot)
        if job.backup is None and self.world.faults.draw("put aside", job.index) < self.world.spec.retracts:
            self.world.clock.after(left // 2 * STEP + STEP // 2, self._put_aside, job, boot)
        self.world.clock.after((left - 1) * STEP, self._finish, job, boot)

    def _steps_done(self, job: Job) -> int:
        """Decode steps of the answer that were taken by now."""
        if self.world.clock.now < job.first_step:
            return job.steps_before
        return min(job.steps, job.steps_before + 1 + (self.world.clock.now - job.first_step) // STEP)

    def _attend(self, job: Job, end: int) -> None:
        """The steps up to token position `end` have been taken: each wrote its own, and attended over all before."""
        self.pool.write(job.decode_pages, job.written, end, job.number, tainted=job.tainted)
        job.written = end
        self.world.truth.observe(job, self.pool, end)

    def _finish(self, job: Job, boot: int) -> None:
        if boot == self.boots and job.decode_state == "decoding" and self._steps_done(job) == job.steps:
            self._leave(job, job.steps, "length")

    def _leave(self, job: Job, steps: int, finish: str) -> None:
        """The answer ends after so many steps."""
        if job.landings:  # nothing may land in pages that have gone to somebody else
            self.world.clock.after(HOP, self._leave_later, job, steps, finish, self.boots)
            return
        leg, end = job.decode_leg, job.prompt + steps
        if steps > job.steps_before:
            self._attend(job, end)
        if steps > job.steps_before + 1:
            self.facts.read(leg, "last", end, job.slot)
        self._release(job, "immediate", end, publish=True)
        self.facts.answered(leg, finish, job.prompt, steps + 1)
        self._over(job, "finished" if finish == "length" else "aborted")
        self.fill()

    def _leave_later(self, job: Job, steps: int, finish: str, boot: int) -> None:
        if boot == self.boots and job.decode_state == "decoding":
            self._leave(job, steps, finish)

    # ------------------------------------------------------------------ ends

    def abort(self, job: Job) -> None:
        """The client went away."""
        if job.decode_state == "queued":
            self._queue.remove(job)
            self.facts.answered(job.decode_leg, "abort", job.prompt, 0, ABORTED)
            self._over(job, "aborted")
        elif job.decode_state == "waiting" and not job.deferred:
            self.facts.answered(job.decode_leg, "abort", job.prompt, 0, ABORTED)
            job.deferred = "deferred"
            self.prefill_is_over(job)
        elif job.decode_state == "decoding":
            self._leave(job, self._steps_done(job), "abort")

    def prefill_is_over(self, job: Job) -> None:
        """Nothing will land any more: pages that were kept for that can go."""
        if job.deferred and job.decode_state == "waiting" and job.prefill_state == "over" and self.up:
            self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """The leg ends without having read anything."""
        self._release(job, job.deferred or "immediate", job.prompt, publish=False)
        self._over(job, "aborted" if job.deferred else "failed")
        self.fill()

    def _release(self, job: Job, mode: str, end: int, *, publish: bool) -> None:
        start = 0 if job.backup is not None else job.prompt
        self.facts.released(job.decode_leg, mode, job.decode_pages, job.decode_prefix, start, end)
        self.give(job.runs, job.decode_pages, job.decode_prefix, job.cache_used, end if publish else 0)
        job.decode_pages, job.cache_used = NO_PAGES, []

    def _over(self, job: Job, state: str) -> None:
        self.facts.ended(job.decode_leg, state, job=job)
        job.decode_state = "over"
        self.jobs.discard(job)

    # ------------------------------------------------------------------ put aside, and the node's own end

    def _put_aside(self, job: Job, boot: int) -> None:
        """The node takes the pages back to make room; the request will go on later, as another leg."""
        if boot != self.boots or job.decode_state != "decoding" or job.landings:
            return
        steps = self._steps_done(job)
        leg, end = job.decode_leg, job.prompt + steps
        self._attend(job, end)
        writer, _, taint = self.pool.content(job.decode_pages, end)
        self.facts.stored(leg, end)
        if steps > 1:
            self.facts.read(leg, "last", end, job.slot)
        self._release(job, "retract", end, publish=False)
        job.backup = (writer, taint)
        job.steps_before += steps
        self.facts.ended(leg, "retracted", job=job)
        job.decode_state = "queued"
        job.decode_leg = self.facts.leg(job, len(job.leg_uids))
        self.facts.admitted(job, job.decode_leg, job.leg_uids[-1])
        job.leg_uids.append(job.decode_leg.uid)
        job.destination = b""
        self._queue.append(job)
        self.world.clock.after(STEP, self.fill)

    def _resume(self, job: Job) -> bool:
        assert job.backup is not None
        found = self.take([], job.prompt + job.steps, 0)
        if found is None:
            return False
        job.decode_pages, job.decode_prefix, job.cache_used = found
        writer, taint = job.backup
        self.pool.restore(job.decode_pages, writer, taint, job.number)
        self.facts.loaded(job.decode_leg, len(writer))
        job.decode_state = "decoding"
        job.first_step = self.world.clock.now + STEP // 4
        self.world.clock.at(job.first_step, self._first_step, job, self.boots)
        return True

    def stop(self, close: str) -> None:
        """The process ends with requests inside. An orderly end answers them with an error first."""
        for job in sorted(self.jobs, key=lambda one: one.index):
            if close == "clean":
                self._fail(job)
            job.decode_state = "over"
            job.prefill.abort(job)
        self.jobs.clear()
        self._queue.clear()
        super().stop(close)

    def _fail(self, job: Job) -> None:
        leg = job.decode_leg
        if job.decode_state == "decoding":
            steps = self._steps_done(job)
            if steps > job.steps_before:
                self._attend(job, job.prompt + steps)
            if steps > job.steps_before + 1:
                self.facts.read(leg, "last", job.prompt + steps, job.slot)
            self._release(job, "immediate", job.prompt + steps, publish=False)
            self.facts.answered(leg, "abort", job.prompt, steps + 1)
        else:
            if not job.deferred:
                self.facts.answered(leg, "abort", job.prompt, 0, ABORTED)
            if job.decode_state == "waiting":
                self._release(job, job.deferred or "immediate", job.prompt, publish=False)
        self.facts.ended(leg, "failed", job=job)
