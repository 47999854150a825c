"""One request on its way through the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.fleet.pages import NO_PAGES, Flags, Pages, Slots
from lab.fleet.prefix_cache import Run

if TYPE_CHECKING:
    from engine_hooks.recorder import Leg
    from lab.fleet.decode import DecodeNode
    from lab.fleet.prefill import PrefillNode


class Job:
    """What both sides know of a request, and how far each is. `number` is its index plus one, as content names it."""

    __slots__ = (
        "aborted", "backup", "cache_used", "concluded", "decode", "decode_leg", "decode_number", "decode_pages",
        "decode_prefix", "decode_state", "deferred", "destination", "first_step", "index", "landings", "leg_uids",
        "namespace", "number", "output", "placeholder", "prefill", "prefill_cached", "prefill_computed",
        "prefill_leg", "prefill_pages", "prefill_state", "prefill_tainted", "prefill_uid", "prefill_used", "prompt",
        "queued_pages", "queued_tokens", "read", "reused", "rid", "rid_digest", "room", "room_digest", "runs", "slot",
        "steps_before", "tainted", "tenant", "told_complete", "traffic", "written",
    )  # fmt: skip

    def __init__(self, index: int, rid: str, room: int, tenant: bytes, traffic: int, prompt: int, output: int) -> None:
        self.index = index
        self.number = index + 1
        self.rid = rid
        self.room = room
        self.tenant = tenant
        self.traffic = traffic
        self.prompt = prompt
        self.output = output
        self.rid_digest = b""
        self.room_digest = 0
        self.namespace = b""
        self.runs: list[Run] = []
        self.slot = index % 256
        self.decode: DecodeNode
        self.prefill: PrefillNode
        self.decode_number = 0  # of the decode node, in its session's name
        self.aborted = False  # the client went away
        # decode
        self.decode_leg: Leg
        self.leg_uids: list[bytes] = []
        self.decode_state = "new"  # new, queued, waiting (reserved), decoding, aside, over
        self.decode_pages: Pages = NO_PAGES
        self.decode_prefix = 0  # tokens out of decode's cache
        self.read = False  # whether a decode step of it was taken
        self.reused = 0  # the same, also when it has been put aside and came back into pages of its own
        self.cache_used: list[int] = []
        self.destination = b""
        self.landings = 0  # chunks that are under way
        self.deferred = ""  # how the pages will be given up once nothing is under way any more
        self.first_step = 0
        self.steps_before = 0  # decode steps of the leg that was put aside
        self.written = 0  # token positions before this one have content
        self.tainted = False  # it attended over foreign KV, or KV computed over such
        self.backup: tuple[Slots, Flags] | None = None
        # prefill
        self.prefill_leg: Leg
        self.prefill_uid = b""
        self.prefill_state = "new"  # new, waiting, queued, computing, over
        self.placeholder = False
        self.told_complete = False  # decode heard from prefill that everything has landed
        self.prefill_pages: Pages = NO_PAGES
        self.prefill_cached = 0
        self.prefill_computed = 0  # tokens that it has, out of the cache or computed
        self.prefill_used: list[int] = []
        self.prefill_tainted = False
        self.concluded = False  # prefill has said that everything landed
        self.queued_pages = 0
        self.queued_tokens = 0

    @property
    def steps(self) -> int:
        """Decode steps of the whole answer: prefill makes its first token."""
        return self.output - 1
