"""Runs a fleet: requests arrive, clients go away, agents post, and at the end every ring is closed and drained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from lab.fleet.clock import SECOND, Clock
from lab.fleet.decode import DecodeNode
from lab.fleet.faults import Faults
from lab.fleet.job import Job
from lab.fleet.node import Node, World
from lab.fleet.node_facts import EVIDENCE_KEY
from lab.fleet.output import Output, Take
from lab.fleet.prefill import PrefillNode
from lab.fleet.spec import FleetSpec
from lab.fleet.truth import Truth
from lab.fleet.workload import Workload, make

AWAY = 2 * SECOND
"""How long a node is away whose process has ended."""

Tell = Callable[[int], None]
"""Is told how many requests have arrived."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A run that is over: every request, and the truth about it. `jobs` is empty where nobody wanted them."""

    spec: FleetSpec
    workload: Workload
    jobs: tuple[Job, ...]
    truth: Truth


class Simulation:
    """One run of one fleet. `brief`: no request is kept once it is over, and of the truth whose KV was read, not where:
    a run of millions fits into memory."""

    def __init__(self, spec: FleetSpec, take: Take, tell: Tell = lambda arrived: None, *, brief: bool = False) -> None:
        self._spec = spec
        self._tell = tell
        self._clock = Clock(int(spec.start.timestamp()) * SECOND)
        self._workload = make(spec)
        truth = Truth(self._workload, slots=not brief)
        self._world = World(spec, self._clock, Faults(spec.seed, spec.injections), truth, Output(take), self._workload)
        self.prefills = [PrefillNode(self._world, number) for number in range(spec.prefill_nodes)]
        self.decodes = [DecodeNode(self._world, number) for number in range(spec.decode_nodes)]
        self._brief = brief
        self._arrived = 0
        self._jobs: list[Job] = []

    @property
    def _nodes(self) -> list[Node]:
        return [*self.prefills, *self.decodes]

    def run(self) -> Fleet:
        """Run to the end."""
        spec, clock = self._spec, self._clock
        clock.at(int(self._workload.arrival[0]), self._arrive, 0)
        for place, node in enumerate(self._nodes):  # not all at once
            clock.after(int((1 + place / len(self._nodes)) * spec.flush_seconds * SECOND), self._tick, node)
            clock.after(int((1 + place / len(self._nodes)) * spec.heartbeat_seconds * SECOND), self._beat, node)
        for number in range(spec.restarts + spec.crashes):
            self._end_of_a_process(number, "clean" if number < spec.restarts else "crashed")
        clock.run(until=self._is_over)
        for node in self._nodes:
            if node.up:
                node.stop("clean")
        return Fleet(spec, self._workload, tuple(self._jobs), self._world.truth)

    def _is_over(self) -> bool:
        return self._arrived == self._spec.requests and not any(node.load for node in self._nodes)

    def _end_of_a_process(self, number: int, close: str) -> None:
        """Plan the end of one node's process, somewhere in the run."""
        draw = self._world.faults.draw
        at = int((0.1 + 0.8 * draw("when a process ends", number)) * self._workload.arrival[-1])
        side: list[Node] = [*self.prefills] if draw("which side", number) < 0.5 else [*self.decodes]
        self._clock.at(at, self._stop, side[int(draw("which node", number) * len(side))], side, close)

    def _stop(self, node: Node, side: list[Node], close: str) -> None:
        if node.up and sum(one.up for one in side) > 1:  # requests need somewhere to go
            node.stop(close)
            self._clock.after(AWAY, node.start_again)

    def _tick(self, node: Node) -> None:
        node.tick()
        self._clock.after(int(self._spec.flush_seconds * SECOND), self._tick, node)

    def _beat(self, node: Node) -> None:
        node.beat()
        self._clock.after(int(self._spec.heartbeat_seconds * SECOND), self._beat, node)

    def _arrive(self, index: int) -> None:
        work = self._workload
        tenant = work.pseudonyms[int(work.tenant[index])]
        prompt, output = int(work.prompt[index]), int(work.output[index])
        rid = f"{self._spec.name}-{self._spec.seed}-{index}"
        room = int.from_bytes(blake2b(rid.encode(), digest_size=7).digest(), "big")
        job = Job(index, rid, room, tenant, int(work.traffic[index]), prompt, output)
        job.rid_digest = EVIDENCE_KEY.rid(job.rid)
        job.room_digest = EVIDENCE_KEY.room(job.room)
        job.namespace = EVIDENCE_KEY.namespace(tenant.hex()) or b""
        job.runs = work.runs(index, self._spec.page_size)
        self._arrived += 1
        if not self._brief:
            self._jobs.append(job)
        job.prefill = min((one for one in self.prefills if one.up), key=lambda one: one.load)
        job.decode = min((one for one in self.decodes if one.up), key=lambda one: one.load)
        job.decode_number = job.decode.number
        job.prefill.admit(job)
        job.decode.admit(job)
        if work.patience[index] >= 0:
            self._clock.after(int(work.patience[index]), self._go_away, job)
        if index + 1 < self._spec.requests:
            self._clock.at(int(work.arrival[index + 1]), self._arrive, index + 1)
        if index % 1000 == 999 or index + 1 == self._spec.requests:
            self._tell(index + 1)

    @staticmethod
    def _go_away(job: Job) -> None:
        if job.decode_state == "over":
            return
        job.aborted = True
        job.decode.abort(job)
        job.prefill.abort(job)


def run_fleet(spec: FleetSpec, take: Take, tell: Tell = lambda arrived: None, *, brief: bool = False) -> Fleet:
    """Run a fleet. Bodies go to `take` as they are posted."""
    return Simulation(spec, take, tell, brief=brief).run()
