"""The toy pair with an engine's room table: what happens to transfers when clients choose each other's rooms and ids.

As in SGLang's Mooncake backend (disaggregation/mooncake/conn.py, 0.5.19): prefill keeps one list of destination pages
for a room, the latest that any decode leg sent; a chunk goes to the list that is there when its turn comes; the last
chunk of *any* leg of the room ends the transfer of every decode leg that waits in it, and takes the list away.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.toy_pair import PAGE, Ask, Read, ToyLeg, ToyPair, hexdigest


@dataclass(frozen=True)
class RoomAsk(Ask):
    """A request whose client chose its room and its request id."""

    room: str = ""
    rid: str = ""
    after: str = ""  # it is sent when the request of this name is over


@dataclass
class Waiting:
    """A decode leg that waits in a room."""

    pages: list[int]
    where: dict[str, Any]
    done: bool = False


@dataclass
class Room:
    """What the engine knows of one room: where to send, and who waits there."""

    table: Waiting | None = None
    waiting: list[Waiting] = field(default_factory=list)


class RoomyPair(ToyPair):
    """A toy pair that keeps its transfers by room."""

    def __init__(self, tag: str, *, lifo: bool = False) -> None:
        super().__init__(tag, prefill_pages=24, decode_pages=48, lifo=lifo)
        self.rooms: dict[str, Room] = {}
        self.over: set[str] = set()

    def run(self, asks: list[Ask], order: random.Random, at_once: int = 3) -> None:
        """Run all requests; the two legs of each take their steps apart from each other."""
        waiting, running = deque(asks), list[Iterator[None]]()
        names = {id(ask): ask.name for ask in asks}
        left = dict.fromkeys(names.values(), 2)
        owner: dict[int, str] = {}
        while waiting or running:
            if waiting and len(running) < 2 * at_once and self._may_start(waiting[0]):
                ask = waiting.popleft()
                assert isinstance(ask, RoomAsk)
                self.clock[0] += 10_000_000
                for leg in self._legs(ask):
                    owner[id(leg)] = ask.name
                    running.append(leg)
            step = order.choice(running)
            if next(step, self) is self:
                running.remove(step)
                left[owner[id(step)]] -= 1
                if not left[owner[id(step)]]:
                    self.over.add(owner[id(step)])

    def _may_start(self, ask: Ask) -> bool:
        return not isinstance(ask, RoomAsk) or not ask.after or ask.after in self.over

    def _legs(self, ask: RoomAsk) -> list[Iterator[None]]:
        self.tenants[ask.name] = ask.tenant
        legs = {role: ToyLeg(hexdigest(self.tag, role, ask.name), ask.tenant) for role in ("p", "d")}
        self.uids[ask.name] = legs["d"].uid
        sent = [False]
        return [self._prefill_leg(ask, legs["p"], sent), self._decode_leg(ask, legs["d"], sent)]

    def _admission(self, ask: RoomAsk) -> dict[str, Any]:
        return {
            "room": self._room_digest(ask),
            "rid": hexdigest(self.tag, "rid", ask.rid or ask.name),
            "tokens_need": ask.prompt,
            "admission_state": "admitted",
            "admission_reason": "none",
        }

    def _room_digest(self, ask: RoomAsk) -> int:
        return int(hexdigest(self.tag, "room", ask.room or ask.name, size=7), 16)

    def _room(self, ask: RoomAsk) -> Room:
        return self.rooms.setdefault(ask.room or ask.name, Room())

    def _prefill_leg(self, ask: RoomAsk, leg: ToyLeg, sent: list[bool]) -> Iterator[None]:
        self.prefill.emit("pagewitness.request.admission", leg, **self._admission(ask), input_limit=self.limit)
        room = self._room(ask)
        patience = 400
        while (to := room.table) is None or (pages := self.prefill_pool.take(ask.prompt)) is None:
            patience -= 1
            if not patience:  # nobody says where to: the engine's bootstrap timeout
                self._end(self.prefill, leg, "failed", 0, 0)
                sent[0] = True
                return
            yield
        told: dict[str, Any] = {"transfer_side": "send", "transfer_status": "destination", **to.where}
        self.prefill.emit("pagewitness.transfer", leg, page_count=len(to.pages), **told)
        for position in range(ask.prompt):
            self.prefill_pool.write(pages, position, ask.name)
        yield
        queued_pages = queued_tokens = 0
        half = len(pages) // 2 if len(pages) > 1 else 0
        for first, last in ((0, half), (half, len(pages))):
            if first == last or room.table is None:
                continue  # the room's transfer is over for the engine: it drops the chunk without a word
            valid = min(last * PAGE, ask.prompt) - first * PAGE
            self._queue(leg, pages, first, last, valid)
            queued_pages, queued_tokens = queued_pages + last - first, queued_tokens + valid
            yield  # the transfer worker takes its time, and looks up then where the chunk goes
            self._land(room, pages, first, last)
        self._release(self.prefill, leg, pages, 0, ask.prompt)
        self.prefill_pool.give(pages)
        self._end(self.prefill, leg, "finished", queued_pages, queued_tokens)
        sent[0] = True

    def _land(self, room: Room, pages: list[int], first: int, last: int) -> None:
        """One chunk arrives, wherever the room's pages are by now. The last one ends the transfer of all who wait."""
        if room.table is None:
            return
        for source, page in zip(pages[first:last], room.table.pages[first:last], strict=False):
            self.decode_pool.content[page] = list(self.prefill_pool.content[source])
        if last == len(pages):
            for waiting in room.waiting:
                waiting.done = True
            room.table = None

    def _queue(self, leg: ToyLeg, pages: list[int], first: int, last: int, valid: int) -> None:
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

    def _decode_leg(self, ask: RoomAsk, leg: ToyLeg, sent: list[bool]) -> Iterator[None]:
        self.decode.emit("pagewitness.request.admission", leg, **self._admission(ask))
        yield
        while (pages := self.decode_pool.take(ask.prompt + ask.output)) is None:
            yield
        reserved = pages[: -(-ask.prompt // PAGE)]
        destination = hexdigest(self.tag, "pages", *reserved)
        where = {
            "room": self._room_digest(ask),
            "transfer_session": "s",
            "transfer_destination": destination,
            "prefix_tokens": 0,
        }
        told: dict[str, Any] = {"transfer_side": "receive", "transfer_status": "reserved", **where}
        self.decode.emit(
            "pagewitness.transfer", leg, pages=reserved, page_count=len(reserved), prompt_tokens=ask.prompt, **told
        )
        mine = Waiting(reserved, where)
        room = self._room(ask)
        room.table = mine
        room.waiting.append(mine)
        patience = 400
        while not mine.done:
            patience -= sent[0]
            if not patience:
                break
            yield
        room.waiting.remove(mine)
        if not mine.done:  # nothing came: the engine's waiting timeout
            if room.table is mine:
                room.table = None
            self._release(self.decode, leg, pages, ask.prompt, ask.prompt)
            self.decode_pool.give(pages)
            self._end(self.decode, leg, "failed", 0, 0, transfer_destination=destination)
            return
        yield from self._decode(ask, leg, pages, destination)


__all__ = ["Read", "RoomAsk", "RoomyPair"]
