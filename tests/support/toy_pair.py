"""A toy prefill/decode pair whose page slots hold *content*: who wrote them. A stand-in for the engine, for properties.

It takes page ids from free lists, computes, copies whole pages, rejects with a placeholder and decodes as SGLang does,
and emits the facts that the plugin would. What a response really attended over is read from the content of the decode
pool at its first decode step, never from a fact.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.otlp import Fact, fact

STARTS = itertools.count(1_790_000_000_000_000_000, 3_600_000_000_000)
"""Each pair has an hour of its own, so that pairs in one store do not overlap."""

PAGE = 4
"""Token slots a page: small, so that partial pages are common."""


def hexdigest(*parts: object, size: int = 16) -> str:
    """A digest for ids of the toy: hex digits."""
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=size).hexdigest()


class Pool:
    """Pages of slots; a slot holds the name of the request whose KV it is, or None."""

    def __init__(self, pages: int, lifo: bool) -> None:
        self.content: list[list[str | None]] = [[None] * PAGE for _ in range(pages)]
        self.free = deque(range(pages))
        self.lifo = lifo

    def take(self, tokens: int) -> list[int] | None:
        """Pages for so many tokens, or None if there are too few."""
        count = -(-tokens // PAGE)
        if count > len(self.free):
            return None
        return [self.free.pop() if self.lifo else self.free.popleft() for _ in range(count)]

    def give(self, pages: list[int]) -> None:
        """Put pages back; their content stays."""
        self.free.extend(pages)

    def write(self, pages: list[int], position: int, owner: str) -> None:
        """The forward of one token."""
        self.content[pages[position // PAGE]][position % PAGE] = owner


@dataclass
class Emitter:
    """Facts of one process, in order."""

    name: str
    boot: str
    clock: list[int]
    facts: list[Fact] = field(default_factory=list)

    def emit(self, span: str, leg: ToyLeg | None = None, **named: Any) -> Fact:
        """One more fact of this boot, and of the leg if it has one."""
        self.clock[0] += 1_000_000
        common: dict[str, Any] = {
            "emitter": self.name,
            "boot": self.boot,
            "seq": len(self.facts) + 1,
            "time_ns": self.clock[0],
        }
        if leg is not None:
            leg.ordinal += 1
            common |= {"uid": leg.uid, "ordinal": leg.ordinal, "tenant": leg.tenant}
        made = fact(span, **common, **named)
        self.facts.append(made)
        return made


@dataclass
class ToyLeg:
    """Identity of one leg while it records."""

    uid: str
    tenant: str
    ordinal: int = 0


@dataclass(frozen=True)
class Ask:
    """One request. `fault`: none, lost_chunk, refused_landed, refused_lost, reject (a fixed engine's) ."""

    name: str
    tenant: str
    prompt: int
    output: int
    fault: str = "none"


@dataclass(frozen=True)
class Read:
    """What a response attended over: for each foreign slot (page, slot) the name of the request that wrote it."""

    name: str
    uid: str
    foreign: dict[tuple[int, int], str | None]


class ToyPair:
    """Runs requests, any number at a time, and keeps their facts and the truth about what each one read."""

    def __init__(
        self, tag: str, prefill_pages: int = 12, decode_pages: int = 24, *, lifo: bool = False, vulnerable: bool = True
    ) -> None:
        self.tag = tag
        clock = [next(STARTS)]
        self.clock = clock
        self.prefill = Emitter("toy/prefill", hexdigest(tag, "p"), clock)
        self.decode = Emitter("toy/decode", hexdigest(tag, "d"), clock)
        self.agent = Emitter("toy/agent", hexdigest(tag, "a"), clock)
        self.prefill_pool, self.decode_pool = Pool(prefill_pages, lifo), Pool(decode_pages, lifo)
        self.limit = prefill_pages * PAGE
        self.vulnerable = vulnerable
        self.truth: dict[str, Read] = {}
        self.uids: dict[str, str] = {}  # name -> uid of its decode leg
        self.tenants: dict[str, str] = {}
        for emitter, role, limit in (
            (self.prefill, "prefill", self.limit),
            (self.decode, "decode", decode_pages * PAGE),
        ):
            emitter.emit(
                "pagewitness.node.config",
                node_role=role,
                rank=0,
                ranks=1,
                page_size=PAGE,
                input_limit=limit,
                hooks_missing=["transfer.landed"],  # as SGLang before 0.5.20: no word of landing
                node_id=hexdigest(tag, role),
                gen_ai_request_model="toy",
            )

    def run(self, asks: list[Ask], order: random.Random, at_once: int = 2) -> None:
        """Run all requests, up to `at_once` in flight, their steps interleaved at random."""
        waiting, running = deque(asks), list[Iterator[None]]()
        while waiting or running:
            if waiting and len(running) < at_once:
                running.append(self._request(waiting.popleft()))
            step = order.choice(running)
            if next(step, self) is self:
                running.remove(step)

    def close(self, **more: Any) -> None:
        """The agent's last word on both boots; `more` of it as given."""
        for emitter in (self.prefill, self.decode):
            self.clock[0] += 1_000_000_000
            self.agent.emit(
                "pagewitness.emitter",
                subject_emitter=emitter.name,
                subject_boot=emitter.boot,
                close="clean",
                seq_high_water=len(emitter.facts),
                drops=0,
                hook_errors=0,
                attested=self.clock[0],
                **more,
            )

    @property
    def facts(self) -> list[Fact]:
        """Every fact of both nodes and the agent."""
        return [*self.prefill.facts, *self.decode.facts, *self.agent.facts]

    def _request(self, ask: Ask) -> Iterator[None]:
        self.tenants[ask.name] = ask.tenant
        legs = {role: ToyLeg(hexdigest(self.tag, role, ask.name), ask.tenant) for role in ("p", "d")}
        self.uids[ask.name] = legs["d"].uid
        room = int(hexdigest(self.tag, "room", ask.name, size=7), 16)
        rid = hexdigest(self.tag, ask.name)
        rejected = ask.prompt >= self.limit
        admission = {"room": room, "rid": rid, "tokens_need": ask.prompt}
        self.prefill.emit(
            "pagewitness.request.admission",
            legs["p"],
            **admission,
            input_limit=self.limit,
            admission_state="rejected" if rejected else "admitted",
            admission_reason="input_too_long" if rejected else "none",
        )
        self.decode.emit(
            "pagewitness.request.admission", legs["d"], **admission, admission_state="admitted", admission_reason="none"
        )
        yield
        while (pages := self.decode_pool.take(ask.prompt + ask.output)) is None:
            yield
        reserved = pages[: -(-ask.prompt // PAGE)]
        destination = hexdigest(self.tag, "pages", *reserved)
        where = {"room": room, "transfer_session": "s", "transfer_destination": destination, "prefix_tokens": 0}
        self.decode.emit(
            "pagewitness.transfer",
            legs["d"],
            transfer_side="receive",
            transfer_status="reserved",
            pages=reserved,
            page_count=len(reserved),
            prompt_tokens=ask.prompt,
            **where,
        )
        yield
        stranded = rejected and not self.vulnerable
        if stranded:
            self._end(self.prefill, legs["p"], "rejected", 0, 0)
        else:
            yield from self._prefill(ask, legs["p"], 1 if rejected else ask.prompt, reserved, where)
        yield
        if stranded or ask.fault.startswith("refused"):
            self.decode_pool.give(pages)
            self._release(self.decode, legs["d"], pages, ask.prompt, ask.prompt)
            self._end(self.decode, legs["d"], "failed", 0, 0, transfer_destination=destination)
            return
        yield from self._decode(ask, legs["d"], pages, destination)

    def _prefill(
        self, ask: Ask, leg: ToyLeg, tokens: int, reserved: list[int], where: dict[str, Any]
    ) -> Iterator[None]:
        while (pages := self.prefill_pool.take(tokens)) is None:
            yield
        self.prefill.emit(
            "pagewitness.transfer",
            leg,
            transfer_side="send",
            transfer_status="destination",
            page_count=len(reserved),
            **where,
        )
        for position in range(tokens):
            self.prefill_pool.write(pages, position, ask.name)
        half = len(pages) // 2 if len(pages) > 1 else 0
        sent = 0
        for first, last in ((0, half), (half, len(pages))):
            if first == last or (ask.fault == "lost_chunk" and first > 0):
                continue
            valid = min(last * PAGE, tokens) - first * PAGE
            self.prefill.emit(
                "pagewitness.transfer",
                leg,
                transfer_side="send",
                transfer_status="queued",
                pages=pages[first:last],
                page_count=last - first,
                chunk_page=first,
                chunk_tokens=valid,
                sender_pages=len(pages),
            )
            sent += valid
            if ask.fault != "refused_lost":
                for source, target in zip(pages[first:last], reserved[first:last], strict=True):
                    self.decode_pool.content[target] = list(self.prefill_pool.content[source])
            yield
        self._release(self.prefill, leg, pages, 0, tokens)
        self.prefill_pool.give(pages)
        state = "rejected" if tokens != ask.prompt else "finished"
        self._end(self.prefill, leg, state, -(-sent // PAGE), sent)

    def _decode(self, ask: Ask, leg: ToyLeg, pages: list[int], destination: str) -> Iterator[None]:
        self.decode.emit(
            "pagewitness.transfer", leg, transfer_side="receive", transfer_status="committed", prompt_tokens=ask.prompt
        )
        yield
        slots = {divmod(position, PAGE): position for position in range(ask.prompt)}
        content = {(pages[index], slot): self.decode_pool.content[pages[index]][slot] for index, slot in slots}
        foreign = {where: owner for where, owner in content.items() if owner != ask.name}
        self.truth[ask.name] = Read(ask.name, leg.uid, foreign)
        for step in range(ask.output):
            self.decode_pool.write(pages, ask.prompt + step, ask.name)
            if step == 0:
                self.decode.emit("pagewitness.page.read", leg, read_phase="first", read_tokens=ask.prompt + 1)
            yield
        length = ask.prompt + ask.output
        self.decode.emit("pagewitness.page.read", leg, read_phase="last", read_tokens=length)
        self._release(self.decode, leg, pages, ask.prompt, length)
        self.decode_pool.give(pages)
        self.decode.emit(
            "pagewitness.response",
            leg,
            finish="length",
            gen_ai_usage_input_tokens=ask.prompt,
            gen_ai_usage_output_tokens=ask.output,
            tokens_delivered=ask.output,
        )
        self._end(self.decode, leg, "finished", 0, 0, transfer_destination=destination)

    @staticmethod
    def _release(emitter: Emitter, leg: ToyLeg, pages: list[int], start: int, end: int) -> None:
        emitter.emit(
            "pagewitness.page.release",
            leg,
            release_mode="immediate",
            pages=pages,
            pages_complete=True,
            prefix_tokens=0,
            written_start=start,
            written_end=end,
        )

    @staticmethod
    def _end(emitter: Emitter, leg: ToyLeg, state: str, queued_pages: int, queued_tokens: int, **more: Any) -> None:
        emitter.emit(
            "pagewitness.request.end",
            leg,
            end_state=state,
            leg_facts=leg.ordinal + 1,
            queued_pages=queued_pages,
            queued_tokens=queued_tokens,
            **more,
        )
