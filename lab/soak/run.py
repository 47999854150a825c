"""Runs fleets of the soak: simulated, damaged, stored, judged by the real detection, and held against their content.

Fleets share a store, a few at a time, so that making its tables is not most of the work; no two have an id in common,
and none is posted while another one runs.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

from collector.store import Store, open_store
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from lab.fleet.agent import Posted
from lab.fleet.damage import damaged
from lab.fleet.held import Held, answers_about, hold
from lab.fleet.simulate import Fleet, run_fleet
from lab.soak.draw import Drawn, draw

TOGETHER = 10
"""Fleets that one store takes."""


def run_all(seed: int, numbers: Sequence[int], processes: int) -> Iterator[tuple[int, Held]]:
    """(how many fleets, what was counted) of each share of the fleets, as they are done, by so many processes."""
    shares = [(seed, numbers[start : start + TOGETHER]) for start in range(0, len(numbers), TOGETHER)]
    if processes == 1 or len(shares) == 1:
        for share in shares:
            yield len(share[1]), run_share(share)
        return
    at_once = min(processes, len(shares))
    # Ctrl-C reaches every process of the terminal; the one that started the others ends them
    with get_context("spawn").Pool(at_once, signal.signal, (signal.SIGINT, signal.SIG_IGN), 20) as pool:
        yield from zip((len(one) for _, one in shares), pool.imap(run_share, shares), strict=True)


def run_share(share: tuple[int, Sequence[int]]) -> Held:
    """Run the fleets with these numbers in a store of their own."""
    seed, numbers = share
    held = Held()
    with tempfile.TemporaryDirectory(prefix="pagewitness-soak-") as folder, open_store(Path(folder)) as store:
        for number in numbers:
            held.add(run_one(store, draw(seed, number)))
    return held


def run_one(store: Store, drawn: Drawn) -> Held:
    """Run one fleet, in a store that no other process has open."""
    posted: list[Posted] = []
    fleet = run_fleet(drawn.spec, posted.append)
    bodies = damaged(posted, drawn.damages, drawn.damage_seed)
    early: list[Held] = []
    for left in range(drawn.passes, 1, -1):  # who asks before everything is there must not be told wrongly either
        part, bodies = bodies[: len(bodies) // left], bodies[len(bodies) // left :]
        early.append(_held(store, fleet, part, full_evidence=False))
    held = _held(store, fleet, bodies, full_evidence=drawn.full_evidence)
    for one in early:
        held.add_mistakes(one)
    held.mistakes = [f"fleet {drawn.number}, {mistake}" for mistake in held.mistakes]
    return held


def _held(store: Store, fleet: Fleet, bodies: Sequence[Posted], *, full_evidence: bool) -> Held:
    """What is said of the fleet once these bodies are there too."""
    for body in _together(bodies):
        store.insert_otlp(body)
    handle = store.handle()
    Runner(handle, DetectionSettings()).run_once()
    return hold(fleet, *answers_about(handle, fleet), full_evidence=full_evidence)


def _together(bodies: Iterable[Posted], most: int = 50) -> Iterator[bytes]:
    """So many bodies as one: serialised messages of a repeated field, one behind the other, are one message."""
    batch: list[bytes] = []
    for body in bodies:
        batch.append(body.data)
        if len(batch) == most:
            yield b"".join(batch)
            batch = []
    if batch:
        yield b"".join(batch)
