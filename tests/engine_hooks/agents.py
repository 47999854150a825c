"""Agents for the tests: made over a folder, run until something holds, and what they brought."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from engine_hooks.agent import Agent
from engine_hooks.exporter import Exporter
from engine_hooks.heartbeat import Heartbeats
from engine_hooks.recorder import Recorder
from engine_hooks.spool import Spool
from engine_hooks.transport import Transport
from tests.engine_hooks.receiver import Receiver, Request, Sent
from tests.engine_hooks.support import a_ring, record_reads

READS = "for n in range(300): recorder.read(leg, phase='first', tokens=n)"
"""Body of a writer process that records 300 facts."""


def ring_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "rings").iterdir())


def seqs(sent: list[Sent]) -> list[int]:
    return [span.seq for span in sent]


def agent_and_ring(folder: Path, receiver: Receiver, facts: int = 10) -> tuple[Agent, Recorder]:
    agent = an_agent(folder, receiver.url)
    recorder = Recorder(a_ring(folder / "rings", capacity=1 << 20))
    record_reads(recorder, facts)
    return agent, recorder


def closes(receiver: Receiver) -> list[str]:
    return [beat.values["pagewitness.close"] for beat in receiver.heartbeats]


def of_engine(request: Request) -> list[Sent]:
    """What a message holds of `host1/decode`."""
    return [span for span in request.spans if span.emitter == "host1/decode"]


def an_agent(
    folder: Path, url: str, *, spool_bytes: int = 64 << 20, timeout: float = 5.0, pause: float = 0.01
) -> Agent:
    """An agent over `folder/rings` and `folder/spool` that tries again after half a `pause` to two of it."""
    (folder / "rings").mkdir(exist_ok=True)
    return Agent(
        folder / "rings",
        Exporter(Transport(url, timeout=timeout), base=pause, ceiling=2 * pause),
        Spool(folder / "spool", spool_bytes),
        Heartbeats("host1/agent"),
        heartbeat_seconds=0.05,
        poll_seconds=0.01,
    )


def until(agent: Agent, condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Run the agent's loop until the condition holds; fails the test if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the agent never came to it"
        if not agent.step():
            time.sleep(0.005)
