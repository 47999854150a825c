"""Builders for the tests of the hooks: legs, rings, facts in them, and writers in other processes."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine_hooks.facts import Fact, unpack_fact
from engine_hooks.recorder import Leg, Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_reader import RingReader

TENANT = bytes(range(16))
SMALL = 64 << 10


def a_leg(number: int = 1, *, tenant: bytes = TENANT, key: str = "p1", traffic: str = "customer") -> Leg:
    return Leg(number.to_bytes(16, "big"), tenant, key, traffic)


def page_list(*ids: int) -> array[int]:
    return array("i", ids)


def a_ring(directory: Path, emitter: str = "host1/decode", capacity: int = SMALL, lanes: int = 2) -> Ring:
    return Ring.create(directory, emitter, capacity=capacity, lanes=lanes)


def record_reads(recorder: Recorder, count: int, leg: Leg | None = None) -> int:
    """Record `count` small facts; how many were taken."""
    leg = leg or a_leg()
    return sum(recorder.read(leg, phase="first", tokens=place) for place in range(count))


def facts_in(ring: Ring | Path) -> list[Fact]:
    """Every fact that a reader finds in a ring, in its order. Leaves the ring as it was."""
    reader = RingReader.open(ring.path if isinstance(ring, Ring) else ring)
    snapshot = reader.snapshot()
    facts = []
    while (record := reader.next(snapshot)) is not None:
        facts.append(unpack_fact(record))
        record.release()
    reader.close()
    return facts


WRITER = """
import sys, time
from array import array
from engine_hooks.recorder import Leg, Recorder
from engine_hooks.ring import Ring

ring = Ring.create({directory!r}, {emitter!r}, capacity=1 << 20, lanes=2)
recorder = Recorder(ring)
leg = Leg((7).to_bytes(16, "big"), bytes(range(16)), "p1", "customer")
{body}
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def writer_process(directory: Path, body: str = "", emitter: str = "host1/decode") -> Iterator[subprocess.Popen[str]]:
    """Another process that makes a ring, runs `body` (it has `ring`, `recorder`, `leg`) and then stays."""
    script = WRITER.format(directory=str(directory), emitter=emitter, body=body)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
