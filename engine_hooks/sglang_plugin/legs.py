"""The legs of one scheduler process: opened when a request is first seen, found again through the request, ended once.

The state of a leg hangs on the engine's own request object and dies with it, so there is nothing to clean up and no
table that a client could fill. It is never looked up by a request id or a room: clients choose both and repeat them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from engine_hooks.identity import NO_TENANT, EvidenceKey, Key, Salts
from engine_hooks.recorder import Leg, Recorder
from engine_hooks.sglang_plugin.cache_keys import namespace
from engine_hooks.sglang_plugin.dialects import salt_of
from engine_hooks.sglang_plugin.wording import rid_of, room_of

LEG = "_pagewitness_leg"
"""Attribute of the engine's requests, senders and receivers that holds their leg's state."""
UNKNOWN = 1 << 62
"""Stands for a total that is not known: a total that is too low would be taken for proof that something is missing."""
_BUCKETS = 1 << 16


@dataclass(slots=True)
class Limits:
    """What the node's configuration says about every leg; filled in when the scheduler is built."""

    role: str = "unified"
    input_limit: int = 0
    context_tokens: int = 0
    page_size: int = 1
    prefix_cache: bool = True
    key_composition: bytes = b"tokens"  # of the prefix cache: words of the contract, joined by line breaks
    canary: str = "none"  # what the engine's KV canary does about a violation
    tier: str = "control"
    pool_pages: int = 0
    allocator: Callable[[], Any] | None = None  # a weak reference to the KV pool's own


class LegState:
    """What the hooks remember of one leg between two calls. Numbers of tokens and pages, no content."""

    __slots__ = (
        "__weakref__", "aborted_status", "acks", "acquired_pages", "chunk", "client_abort", "computed_end",
        "computed_start", "concluded", "decided", "destination", "ended", "ending", "finish", "first_read", "leg",
        "mode", "namespace", "need_tokens", "outputs", "owner", "pages", "pending", "prefix_tokens", "prompt_tokens",
        "published", "queued_pages", "queued_tokens", "read_tokens", "rejected_status", "released", "responded",
        "restored", "resumes", "rid", "room", "row", "row_generation", "shared_end", "steps", "unsure", "waiting",
    )  # fmt: skip

    def __init__(self, leg: Leg, owner: int, rid: bytes, room: int, need_tokens: int, prompt_tokens: int) -> None:
        self.leg = leg
        self.owner = owner  # id() of the request: a copy of the request is not the owner of its leg
        self.rid = rid
        self.room = room
        self.need_tokens = need_tokens
        self.prompt_tokens = prompt_tokens
        self.namespace: bytes | None = None  # what keeps its entries in the prefix cache apart from others'
        self.resumes: bytes | None = None  # uid of the leg of the same request that was retracted before
        self.decided = False  # whether an admission fact is out
        self.unsure = False  # whether something of it was not recorded: what was counted for it may be too low
        self.rejected_status: int | None = None
        self.restored = False  # whether its KV was loaded back from a backup of an earlier leg
        self.outputs = 0  # output tokens before a commit
        self.destination: bytes | None = None
        self.prefix_tokens = 0
        self.pages: list[bytes] = []  # page ids that were on the CPU anyway, copied: they may lie in pinned memory
        self.chunk: Any = None  # the chunk that the sender works on
        self.pending: list[Any] = []  # queued chunks whose page ids are still on their way from the GPU
        self.queued_pages = 0
        self.queued_tokens = 0
        self.computed_start: int | None = None  # token positions that extend forwards covered
        self.computed_end = 0
        self.first_read = 0
        self.read_tokens = 0
        self.row: int | None = None
        self.row_generation: int | None = None
        self.published: Any = None  # its pages before the prefix cache looked at them
        self.shared_end = 0  # token positions before this one lie in the cache's pages now, whoever wrote those
        self.mode = "immediate"  # how it gives its pages up
        self.acks = 0  # prefill ranks that must say that they have stopped writing before a deferred release
        self.concluded: set[tuple[int, bool]] | None = None  # (prefill rank, whether it landed) as recorded
        self.released = False
        self.responded = False
        self.finish = ""
        self.aborted_status: int | None = None
        self.client_abort = False
        self.steps = 0  # exact tier: forwards it took part in
        self.acquired_pages = 0  # exact tier: pages that acquire facts name
        self.waiting = 0  # facts whose page ids are still on their way from the device
        self.ending = ""  # how it ends once they are here
        self.ended = ""

    @property
    def over(self) -> str:
        """How the leg ended, recorded or about to be; empty while it lives."""
        return self.ended or self.ending


@dataclass(frozen=True, slots=True)
class Arrival:
    """What the tokenizer sent of the request that is being taken in: from before any truncation or placeholder."""

    rid: Any
    tokens: int
    salt: Any


class Occurrences:
    """A number for each leg of one (rid, room), the same on every rank, never twice in a boot.

    It counts by bucket, not by pair: bounded whatever clients send, and a pair that comes back after any time still
    gets a new number.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _BUCKETS))

    def next(self, digest: bytes) -> int:
        """The next number for a pair with this digest, from 0."""
        bucket = int.from_bytes(digest[:2], "little") % _BUCKETS
        number = self._counts[bucket]
        self._counts[bucket] = number + 1
        return number


class Legs:
    """Opens, finds, admits, rejects and ends legs. Silent until `recorder` is set."""

    def __init__(self, evidence: EvidenceKey, mac_keys: tuple[Key, ...], node_boot: bytes) -> None:
        self.evidence = evidence
        self.node_boot = node_boot
        self.limits = Limits()
        self.recorder: Recorder | None = None
        self.arriving: Arrival | None = None
        self._salts = Salts(mac_keys)
        self.occurrences = Occurrences()
        self.alive: WeakSet[LegState] | None = None  # states whose requests live, where a standstill may come
        self.midway = False  # whether the boot began with requests inside that no hook had seen arrive

    def find(self, request: Any) -> LegState | None:
        """The open leg of a request, or None."""
        state = getattr(request, LEG, None)
        return None if state is None or state.over or state.owner != id(request) else state

    def start(self, request: Any, *, arrives: bool = False) -> LegState | None:
        """The open leg of a request, opened now if it has none yet or was retracted. None if its leg has ended.

        In a boot that began midway, a request that is not seen to arrive (`arrives`) has a past that nobody saw: it
        gets no leg.
        """
        if self.recorder is None:
            return None
        state: LegState | None = getattr(request, LEG, None)
        if state is None or state.owner != id(request):
            return self._open(request) if arrives or not self.midway else None
        if state.over == "retracted":
            return self._open(request)
        return None if state.over else state

    def admit(self, request: Any, *, arrives: bool = False) -> LegState | None:
        """`start`, and record the admission if the node has not decided yet: it goes on with the request."""
        state = self.start(request, arrives=arrives)
        if state is not None:
            self.admit_state(state)
        return state

    def admit_state(self, state: LegState) -> None:
        """The same for a leg that is already in hand."""
        if not state.decided:
            self._decide(state, "admitted", "none", None)

    def reject(self, request: Any, reason: str, status: int, *, arrives: bool = False) -> LegState | None:
        """`start`, and record that the node rejected the request. Only the first rejection counts: after it, the
        engine's prompt is a placeholder."""
        state = self.start(request, arrives=arrives)
        if state is not None and state.rejected_status is None:
            state.rejected_status = status
            self._decide(state, "rejected", reason, status)
        return state

    def end(self, state: LegState, how: str) -> None:
        """Record the last fact of the leg; nothing is recorded for it afterwards."""
        recorder = self.recorder
        if recorder is None or state.ended:
            return
        how = state.ending or how
        if state.waiting:
            state.ending = how
            return
        state.ended = how
        exact = self.limits.tier == "exact"
        recorder.end(
            state.leg,
            state=how,
            queued_pages=UNKNOWN if state.unsure else state.queued_pages,
            queued_tokens=UNKNOWN if state.unsure else state.queued_tokens,
            destination=state.destination,
            steps=state.steps if exact else None,
            acquired_pages=state.acquired_pages if exact else None,
        )

    def arrived(self, state: LegState) -> None:
        """A fact that waited for numbers from the device is recorded; the leg's last one may follow now."""
        state.waiting -= 1
        if state.ending and not state.waiting:
            self.end(state, state.ending)

    def lose_all(self) -> None:
        """Nothing more is recorded of any leg that lives now."""
        for state in list(self.alive or ()):
            if not state.ended:
                state.ended = "lost"

    def gap(self, state: LegState) -> None:
        """Something of this leg could not be recorded: it uses up an ordinal, so that the leg is not complete."""
        state.leg.take()
        state.unsure = True
        if self.recorder is not None:
            self.recorder.hook_error()

    def failed(self, values: Iterable[Any]) -> None:
        """A hook failed on a call with these arguments: every leg among them is incomplete from now on."""
        if self.recorder is not None:
            self.recorder.hook_error()
        for value in values:
            for state in _involved(value):
                state.leg.take()
                state.unsure = True

    def _open(self, request: Any) -> LegState:
        rid, room, salt = rid_of(request.rid), room_of(request.bootstrap_room), salt_of(request)
        need = prompt = len(request.origin_input_ids)
        arrival = self.arriving
        if arrival is not None and arrival.rid == request.rid:
            need = max(need, arrival.tokens)
            salt = arrival.salt if salt is None else salt
        identity = self._salts.identity(salt)
        pair = self.evidence.uid(self.node_boot, rid, room, -1)
        uid = self.evidence.uid(self.node_boot, rid, room, self.occurrences.next(pair))
        if identity is None:
            leg = Leg(uid, NO_TENANT, "", "customer")
        else:
            leg = Leg(uid, identity.tenant, identity.key_id, identity.traffic)
        state = LegState(leg, id(request), self.evidence.rid(rid), self.evidence.room(room), need, prompt)
        if self.limits.prefix_cache:
            state.namespace = namespace(self.evidence, request)
        before: LegState | None = getattr(request, LEG, None)
        if before is not None and before.owner == id(request) and before.over == "retracted":
            state.resumes = before.leg.uid
        setattr(request, LEG, state)
        if self.alive is not None:
            self.alive.add(state)
        return state

    def _decide(self, state: LegState, decision: str, reason: str, status: int | None) -> None:
        recorder = self.recorder
        if recorder is None:
            return
        state.decided = True
        recorder.admission(
            state.leg,
            state=decision,
            reason=reason,
            need_tokens=state.need_tokens,
            input_limit=self.limits.input_limit,
            context_tokens=self.limits.context_tokens,
            room=state.room,
            rid=state.rid,
            status=status,
            resumes=state.resumes,
            namespace=state.namespace,
        )


def _involved(value: Any) -> list[LegState]:
    """The open legs that hang on an argument: on a request, on what wraps one, on a batch or a list of them."""
    try:
        many = value if isinstance(value, list) else getattr(value, "reqs", None)
        candidates = many if isinstance(many, list) else [value, getattr(value, "req", None)]
        states = [getattr(candidate, LEG, None) for candidate in candidates]
        return [state for state in states if isinstance(state, LegState) and not state.ended]
    except Exception:  # noqa: BLE001 - an object of the engine that cannot even be looked at names no leg
        return []
