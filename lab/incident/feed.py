"""Between the agents of a fleet and the store: bodies are stored as they come, and judged every so often.

So memory does not grow with the run, and responses are judged as a service would have judged them: with what had
arrived by then, and again where later evidence could change the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from collector.store import Store
from detectors.runner import Runner
from lab.engine.progress import Say
from lab.fleet.agent import Posted
from lab.fleet.clock import SECOND
from lab.fleet.spec import FleetSpec

BATCH_BYTES = 4 << 20
PASS = 20_000
"""Requests for which there is a pass of detection."""

Keep = Callable[[Posted], bool]
"""Whether a body reaches the store: what does not is lost telemetry."""


def keep_all(_body: Posted) -> bool:
    """Nothing is lost."""
    return True


class Feed:
    """Takes the bodies of one fleet. Call `finish` behind the last. A pass for about `judge_every` requests."""

    def __init__(
        self, store: Store, runner: Runner, spec: FleetSpec, say: Say, keep: Keep = keep_all, judge_every: int = PASS
    ) -> None:
        self._store = store
        self._runner = runner
        self._start = spec.start
        self._say = say
        self._keep = keep
        self._every = int(judge_every / spec.traffic.per_second * SECOND)
        self._next = self._every
        self._batch = bytearray()

    def take(self, body: Posted) -> None:
        """One body, as it is posted."""
        if body.at >= self._next:
            self._next = (body.at // self._every + 1) * self._every
            self._judge(f"what was posted before {self._start + timedelta(seconds=body.at // SECOND):%d %B %H:%M}")
        if self._keep(body):
            self._batch += body.data  # messages behind each other are one message with the parts of all
            if len(self._batch) >= BATCH_BYTES:
                self._write()

    def finish(self) -> None:
        """Store and judge the rest."""
        self._judge("the rest")

    def _judge(self, what: str) -> None:
        self._write()
        self._say(f"judging {what}")
        report = self._runner.run_once()
        self._say(f"judged {report.judged} responses in {report.seconds:.1f} s, {report.violations} read foreign KV")

    def _write(self) -> None:
        if self._batch:
            self._store.insert_otlp(bytes(self._batch))
            self._batch.clear()
