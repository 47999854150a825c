"""What a fleet is: its nodes, its pools, its traffic, and what goes wrong in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from lab.fleet.faults import Injection

START = datetime(2026, 8, 27, tzinfo=UTC)
"""When a fleet starts, by its own clock."""


@dataclass(frozen=True, slots=True)
class TrafficSpec:
    """Who asks for what. Lengths are tokens; the typical ones are medians of distributions with a heavy tail."""

    tenants: int = 40
    per_second: float = 4.0
    typical_prompt: int = 600
    prompt_spread: float = 1.0  # sigma of the logarithm
    longest_prompt: int = 9_000
    typical_output: int = 120
    longest_output: int = 800
    preamble: int = 256  # longest preamble that requests of a tenant share
    goes_on: float = 0.3  # share of requests that go on with an earlier one of their tenant
    internal: float = 0.05
    researcher: float = 0.05
    aborts: float = 0.02  # share of requests whose client goes away


@dataclass(frozen=True, slots=True)
class Planted:
    """So many requests of one label that are asked in a part of the run, with prompts of a length of their own. They
    begin a conversation, nobody goes away from them, and each is answered by two tokens or more."""

    count: int
    traffic: str  # a label
    start: float  # seconds since the fleet's start
    end: float
    shortest: int  # tokens
    longest: int
    tenant: int | None = None  # its number; None: anybody's


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """One fleet and what happens in it. The same spec gives the same bytes."""

    seed: int
    requests: int
    prefill_nodes: int = 2
    decode_nodes: int = 2
    prefill_pages: int = 512
    decode_pages: int = 2_048
    page_size: int = 16
    chunk_tokens: int = 2_048  # prefill computes and sends so many tokens at a time; a multiple of the page size
    lifo: bool = False
    prefix_cache: bool = True
    traffic: TrafficSpec = TrafficSpec()
    planted: tuple[Planted, ...] = ()
    injections: tuple[Injection, ...] = ()
    retracts: float = 0.0  # share of responses that decode puts aside for a while
    restarts: int = 0  # orderly restarts of nodes over the run
    crashes: int = 0
    clock_offset_seconds: float = 2.0  # clocks of hosts are off by up to so much, either way
    flush_seconds: float = 5.0  # how often an agent posts
    heartbeat_seconds: float = 30.0
    bulk_encoder: bool = True  # the same bytes as the agent's own, faster
    start: datetime = START
    model: str = "fleet"
    name: str = "fleet"  # of two fleets with different names, no two hosts or ids are the same

    def __post_init__(self) -> None:
        """Raises ValueError for a fleet that could not serve its own traffic."""
        if self.chunk_tokens % self.page_size:
            raise ValueError("chunk_tokens must be a multiple of page_size: only whole pages are sent")
        longest = max([self.traffic.longest_prompt, *(one.longest for one in self.planted)])
        if self.decode_tokens < longest + self.traffic.longest_output:
            raise ValueError("a decode pool must hold the longest prompt with the longest output")

    @property
    def prefill_limit(self) -> int:
        """Longest prompt that a prefill node takes, in tokens."""
        return self.prefill_pages * self.page_size - 6

    @property
    def decode_tokens(self) -> int:
        """Token slots of a decode node."""
        return self.decode_pages * self.page_size
