"""Whose KV a response read: the history of each foreign page slot, back to the forward that wrote it.

Truth is per (page, slot), because a transfer copies whole pages: the unused slots of its last page carry what the
*source* page held before, out of prefill's pool. So a slot's owner is found by going back through the legs that held
its page on decode; where the last write there was the tail of a transfer, the search goes on in the history of that
transfer's source page on prefill. Slots of a page that have one history are looked up as one.

Three answers are possible for a slot, and the difference is kept: an owner; ``no_writer`` (the evidence of this boot
reaches back to its first fact without a hole, and nothing wrote the slot); ``unattributed`` (a hole in the evidence, a
transfer whose outcome nobody saw, a page list that was incomplete). Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from detectors.history import Holder, PoolHistory
from detectors.joins import Join
from detectors.legs import Leg

LIKELY_HOLDERS = 3
"""Of the legs that held a page last, how many are looked at in most cases before each slot has an owner."""

JoinOf = Callable[[Leg], Join | None]
"""The join of this decode leg, or None if it is not a decode leg."""

TookEarly = Callable[[Leg], bool]
"""Whether this decode leg read before the word that its transfer had landed."""

Preload = Callable[[Iterable[str]], None]
"""Gets these legs and their joins ready in one go, for the look-ups that follow."""

HistoryOf = Callable[[str, str], PoolHistory]
"""The page history of the pool of (emitter, boot)."""


@dataclass(frozen=True, slots=True)
class SlotOwner:
    """Who wrote one slot. `leg` is None for ``no_writer`` and ``unattributed``; `via` is how the bytes got there."""

    verdict: str  # owned | no_writer | unattributed
    via: str  # stale_page | transfer_tail
    leg: Leg | None = None


class Owned(NamedTuple):
    """Slots [start, end) of a page that have one owner."""

    start: int
    end: int
    owner: SlotOwner


Part: TypeAlias = tuple[int, int]
"""Slots [start, end) of a page."""

NO_PART: Part = (0, 0)

Beside: TypeAlias = Callable[[Holder, Part], tuple[list[Owned], Part]]


@dataclass(frozen=True, slots=True)
class ForeignRange:
    """Slots [slot_start, slot_end) of one page, read as token positions from `token_start` on, with one owner."""

    page: int
    slot_start: int
    slot_end: int
    token_start: int
    owner: SlotOwner


class Donors:
    """Looks slots up. One object serves one pass: histories are read once and widened as needed."""

    def __init__(
        self, history_of: HistoryOf, join_of: JoinOf, preload: Preload, took_early: TookEarly, page_size: int
    ) -> None:
        self._took_early = took_early
        self._history_of = history_of
        self._join_of = join_of
        self._preload = preload
        self._page_size = page_size
        self._sent: dict[tuple[str, str, str], dict[int, _Sent]] = {}  # by the receiving leg

    def foreign_ranges(self, join: Join, pages: tuple[int, ...], first: int, last: int) -> list[ForeignRange]:
        """Owners of the token positions [first, last) that the decode leg read and its transfer did not write.

        `pages` are the leg's pages in token order from position 0. Positions past the known pages are left out: the
        caller counts them as unattributed.
        """
        size = self._page_size
        ranges: list[ForeignRange] = []
        end = min(last, len(pages) * size)
        self._prepare(join.decode, pages[first // size : -(-end // size)])
        for index in range(first // size, -(-end // size)):
            begin = index * size
            part = (max(first - begin, 0), min(end - begin, size))
            ranges += [
                ForeignRange(pages[index], start, end, begin + start, owner)
                for start, end, owner in self._owners_of_read(join, index, pages[index], part)
            ]
        return ranges

    def _prepare(self, decode: Leg, pages: Iterable[int]) -> None:
        """The latest holders of a leg's pages are asked for page by page below: get them in one query, not one each."""
        history = self._history_of(decode.emitter, decode.boot)
        before = decode.reserved_seq if decode.reserved_seq is not None else decode.first_seq
        found = (islice(history.holders(page, before, decode), LIKELY_HOLDERS) for page in set(pages))
        self._preload({holder.leg.uid for holders in found for holder in holders if holder is not None})

    def _owners_of_read(self, join: Join, index: int, page: int, part: Part) -> list[Owned]:
        sent = self._sent_to(join, index)
        if sent is not None:
            assert join.prefill is not None  # a source page comes from its chunks
            # behind a chunk that never came, a later one brought what it should
            tail = (max(part[0], _own_end(join, index, sent, self._page_size)), part[1])
            if tail[0] >= tail[1]:
                return []
            if self._took_early(join.decode):  # what was there when it read, the transfer or what was before it
                return [Owned(*tail, SlotOwner("unattributed", "transfer_tail"))]
            return self.prefill_owners(join.prefill, sent.page, tail, sent.seq, "transfer_tail")
        decode = join.decode
        if self._took_early(decode):
            return [Owned(*part, SlotOwner("unattributed", "stale_page"))]
        before = decode.reserved_seq if decode.reserved_seq is not None else decode.first_seq
        return self.decode_owners(decode, page, part, before, "stale_page")

    def holders(self, leg: Leg, page: int, before_seq: int) -> Iterator[Holder | None]:
        """Legs that held a page of this leg's pool, which may be shared through a cache, before this seq."""
        return self._history_of(leg.emitter, leg.boot).holders(page, before_seq, leg, shared=True)

    def prefill_owners(
        self, leg: Leg, page: int, part: Part, before_seq: int, via: str, *, shared: bool = False
    ) -> list[Owned]:
        """Last forward on that prefill pool that wrote each slot before this leg took the page."""
        holders = self._history_of(leg.emitter, leg.boot).holders(page, before_seq, leg, shared=shared)
        return self._resolve(leg, holders, part, via, lambda holder, rest: ([], rest))

    def decode_owners(
        self, leg: Leg, page: int, part: Part, before_seq: int, via: str, *, shared: bool = False
    ) -> list[Owned]:
        """Last write to each slot on that decode pool before `before_seq`: a decode step's, or a transfer's."""
        holders = self._history_of(leg.emitter, leg.boot).holders(page, before_seq, leg, shared=shared)
        return self._resolve(leg, holders, part, via, partial(self._transferred, via))

    def _resolve(self, leg: Leg, holders: Iterator[Holder | None], part: Part, via: str, beside: Beside) -> list[Owned]:
        """Owners of the slots [part) of a page, from its holders. What a holder's own forwards did not write, `beside`
        says how else it came to hold: what that accounts for, and what it leaves to older holders."""
        found: list[Owned] = []
        unresolved = [part]
        for holder in holders:
            if holder is None:
                found += [Owned(start, end, SlotOwner("unattributed", via)) for start, end in unresolved]
                unresolved = []
            elif holder.leg.uid != leg.uid:
                left: list[Part] = []
                for one in unresolved:
                    wrote = _overlap(one, holder.wrote(self._page_size))
                    if wrote[0] < wrote[1]:
                        found.append(Owned(*wrote, SlotOwner("owned", via, holder.leg)))
                    for rest in _without(one, wrote):
                        owned, open_ = beside(holder, rest)
                        found += owned
                        left += [open_] if open_[0] < open_[1] else []
                unresolved = left
            if not unresolved:
                break
        found += [Owned(start, end, SlotOwner("no_writer", via)) for start, end in unresolved]
        return _joined(found)

    def _transferred(self, via: str, holder: Holder, part: Part) -> tuple[list[Owned], Part]:
        """What a transfer left in these slots of a page for this holder's leg, and what it did not touch."""
        start, end = part
        join = self._join_of(holder.leg)
        prefix = holder.leg.prefix_tokens or 0
        if holder.index < prefix // self._page_size:
            return [], part  # a shared prefix page: this leg wrote nothing there
        unattributed = [Owned(start, end, SlotOwner("unattributed", via))]
        if join is not None and join.resumed is not None:
            return self._loaded(via, join, holder, part)
        if join is None or join.prefill is None or not join.prefill.sends_known:
            return unattributed, NO_PART  # nobody can say what was sent to it
        sent = self._sent_to(join, holder.index)
        if sent is None:
            return [], part
        if not holder.leg.committed and holder.leg.read_tokens is None:
            return unattributed, NO_PART  # queued, but whether it landed was never seen
        valid = sent.tokens_end - holder.index * self._page_size
        found = []
        if start < min(valid, end):
            found.append(Owned(start, min(valid, end), SlotOwner("owned", via, holder.leg)))
        if max(start, valid) < end:
            tail = (max(start, valid), end)
            found += self.prefill_owners(join.prefill, sent.page, tail, sent.seq, "transfer_tail")
        return found, NO_PART

    def _loaded(self, via: str, join: Join, holder: Holder, part: Part) -> tuple[list[Owned], Part]:
        """What came back from host memory for a leg that was put aside: its own, where a transfer or a step of the
        first leg had filled it; what else that one had read is nobody's."""
        start, end = part
        begin = holder.index * self._page_size
        loaded = min((join.decode.loaded_tokens or 0) - begin, end)
        if start >= loaded:
            return [], part
        first: Join | None = join
        while first is not None and first.resumed is not None:
            first = self._join_of(first.resumed)
        mine = self._filled(first, holder.index)
        found = []
        for low, high in (_overlap((start, loaded), slots) for slots in mine):
            if low < high:
                found.append(Owned(low, high, SlotOwner("owned", via, holder.leg)))
        left = [(start, loaded)]
        for slots in mine:
            left = [rest for one in left for rest in _without(one, _overlap(one, slots))]
        found += [Owned(low, high, SlotOwner("unattributed", via)) for low, high in left]
        return found, (loaded, end)

    def _filled(self, join: Join | None, index: int) -> list[Part]:
        """Slots of the page at this position that are known to have held the leg's own before it was put aside."""
        if join is None or join.prefill is None or not join.prefill.sends_known or join.decode.prompt_tokens is None:
            return []
        sent = self._sent_to(join, index)
        begin = index * self._page_size
        came = (0, _own_end(join, index, sent, self._page_size)) if sent is not None else NO_PART
        return [came, (max(join.decode.prompt_tokens - begin, 0), self._page_size)]

    def _sent_to(self, join: Join, index: int) -> _Sent | None:
        """What the transfer brought to the leg's page at this position."""
        leg = join.decode
        key = leg.identity
        if key not in self._sent:
            self._sent[key] = _sent_by_index(join, self._page_size)
        return self._sent[key].get(index)


def _overlap(one: Part, other: Part) -> Part:
    return max(one[0], other[0]), min(one[1], other[1])


def _without(part: Part, taken: Part) -> list[Part]:
    """What is left of a part once `taken`, which lies in it or is empty, is out."""
    if taken[0] >= taken[1]:
        return [part]
    return [(start, end) for start, end in ((part[0], taken[0]), (taken[1], part[1])) if start < end]


def _joined(found: list[Owned]) -> list[Owned]:
    """In the order of slots, neighbours of one owner as one."""
    joined: list[Owned] = []
    for owned in sorted(found, key=lambda owned: owned.start):
        if joined and joined[-1].end == owned.start and joined[-1].owner == owned.owner:
            joined[-1] = Owned(joined[-1].start, owned.end, owned.owner)
        else:
            joined.append(owned)
    return joined


class _Sent(NamedTuple):
    """What a transfer brought to one page of the receiving leg: from which page, by the fact with which seq, and one
    past the last token position that it validly wrote there."""

    page: int
    seq: int
    tokens_end: int


def _sent_by_index(join: Join, page_size: int) -> dict[int, _Sent]:
    """By the position of the receiving leg's page: of several chunks, the last one that covers it is its source."""
    sent: dict[int, _Sent] = {}
    if join.prefill is None:
        return sent
    offset = (join.decode.prefix_tokens or 0) // page_size
    for chunk in join.prefill.chunks:
        first = offset + chunk.first_page
        end = first * page_size + chunk.tokens
        for index, page in enumerate(chunk.pages, first):
            before = sent.get(index)
            sent[index] = _Sent(page, chunk.seq, end if before is None else max(end, before.tokens_end))
    return sent


def _own_end(join: Join, index: int, sent: _Sent, page_size: int) -> int:
    """One past the last slot of this page that holds what prefill computed for the request; 0 if none does."""
    assert join.prefill is not None
    end = sent.tokens_end
    if join.prefill.written_end is not None:
        end = min(end, max(join.decode.prefix_tokens or 0, join.prefill.written_end))
    return end - index * page_size
