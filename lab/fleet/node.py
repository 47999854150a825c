"""What a prefill and a decode node have in common: a host with a clock, an agent, and a process that can end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from lab.fleet.agent import CLOCK_ERROR_NS, SimulatedAgent
from lab.fleet.clock import MILLISECOND, SECOND, Clock
from lab.fleet.faults import Faults
from lab.fleet.job import Job
from lab.fleet.node_facts import NodeFacts
from lab.fleet.output import Output
from lab.fleet.pages import NO_PAGES, PagePool, Pages
from lab.fleet.prefix_cache import PrefixCache, Run
from lab.fleet.ring import SimulatedRing
from lab.fleet.spec import FleetSpec
from lab.fleet.truth import Truth
from lab.fleet.workload import Workload

HOP = MILLISECOND
"""What a message between two nodes takes."""


@dataclass(frozen=True, slots=True)
class World:
    """What all nodes of a fleet share."""

    spec: FleetSpec
    clock: Clock
    faults: Faults
    truth: Truth
    output: Output
    workload: Workload


class Node:
    """One node: its pool and cache live as long as its process, its host and agent for ever."""

    def __init__(self, world: World, role: str, number: int) -> None:
        self.world = world
        self.role = role
        self.number = number
        self.host = f"{world.spec.name}-{role}-{number}"
        self.up = True
        self.boots = 0
        self.jobs: set[Job] = set()  # requests inside
        self._queue: deque[Job] = deque()  # those that wait for pages
        draw = world.faults.draw
        span = int(world.spec.clock_offset_seconds * SECOND)
        self.offset_ns = int((2 * draw(f"clock of {self.host}", 0) - 1) * span)
        missed = int((2 * draw(f"measured by {self.host}", 0) - 1) * 0.8 * CLOCK_ERROR_NS)
        self.agent = SimulatedAgent(
            self.host, self.boot_id("agent"), self.wall, self.offset_ns + missed, world.output.post
        )
        self._start()

    @property
    def load(self) -> int:
        """Requests inside, for whoever spreads them."""
        return len(self.jobs)

    def wall(self) -> int:
        """Unix time in ns as this host's clock shows it."""
        return self.world.clock.unix_ns + self.offset_ns

    def boot_id(self, what: str) -> bytes:
        """The boot of a process of this host: as if drawn, but the same for the same seed."""
        return blake2b(
            f"{self.world.spec.name}|{self.world.spec.seed}|{self.host}|{what}".encode(), digest_size=16
        ).digest()

    def tick(self) -> None:
        """The agent drains the ring and posts."""
        if self.up:
            self.agent.drain(self.ring, self.world.clock.now)

    def beat(self) -> None:
        """The agent drains the ring, posts, and vouches."""
        if self.up:
            self.tick()
            self.agent.speak(self.ring, self.world.clock.now)

    def stop(self, close: str) -> None:
        """The process is gone; the agent posts what it left, and says how it ended (clean, crashed)."""
        self.up = False
        if close == "clean":
            self.ring.close()
        self.agent.drain(self.ring, self.world.clock.now, crashed=close == "crashed")
        self.agent.speak(self.ring, self.world.clock.now, close)

    def start_again(self) -> None:
        """A new process: a new boot, an empty pool."""
        self.up = True
        self._start()

    def _start(self) -> None:
        spec = self.world.spec
        self.boots += 1
        boot = self.boot_id(f"boot {self.boots}")
        self.ring = SimulatedRing(f"{self.host}/{self.role}-0-tp0", boot, self.wall, bulk=spec.bulk_encoder)
        self.facts = NodeFacts(self.ring, spec, self.role, self.boot_id(f"node boot {self.boots}"))
        pages = spec.prefill_pages if self.role == "prefill" else spec.decode_pages
        self.pool = PagePool(pages, spec.page_size, lifo=spec.lifo)
        self.cache = PrefixCache(self.pool)

    # ------------------------------------------------------------------ pages

    def take(self, runs: list[Run], tokens: int, most_cached: int) -> tuple[Pages, int, list[int]] | None:
        """(pages, cached tokens, cache entries in use) for a request of so many tokens, or None if there is no room."""
        size = self.pool.page_size
        cached, used = (
            self.cache.match(runs, max(most_cached, 0) // size) if self.world.spec.prefix_cache else (NO_PAGES, [])
        )
        need = -(-tokens // size) - len(cached)
        if not (self.pool.free >= need or self.cache.make_room(need)):
            self.cache.unpin(used)
            # an entry of which it needs only the beginning stays whole while it does: it may stand in its own way
            return self.take([], tokens, 0) if used else None
        pages = self.pool.take(need)
        assert pages is not None
        return np.concatenate([cached, pages]), len(cached) * size, used

    def give(self, runs: list[Run], pages: Pages, cached: int, used: list[int], publish_tokens: int) -> None:
        """A request gives its pages up: whole ones of its first `publish_tokens` tokens stay in the cache."""
        size = self.pool.page_size
        self.cache.unpin(used)
        if publish_tokens > cached and self.world.spec.prefix_cache:
            self.pool.give(self.cache.publish(runs, pages, publish_tokens // size))
        else:
            self.pool.give(pages[cached // size :])
