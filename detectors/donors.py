"""Whose KV a response read: the history of each foreign page slot, back to the forward that wrote it.

Truth is per (page, slot), because a transfer copies whole pages: the unused slots of its last page carry what the
*source* page held before, out of prefill's pool. So a slot's owner is found by going back through the legs that held
its page on decode; where the last write there was the tail of a transfer, the search goes on in the history of that
transfer's source page on prefill.

Three answers are possible for a slot, and the difference is kept: an owner; ``no_writer`` (the evidence of this boot
reaches back to its first fact without a hole, and nothing wrote the slot); ``unattributed`` (a hole in the evidence, a
transfer whose outcome nobody saw, a page list that was incomplete). Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from detectors.history import Holder, PoolHistory
from detectors.joins import Join
from detectors.legs import Leg

LIKELY_HOLDERS = 3
"""Of the legs that held a page last, how many are looked at in most cases before each slot has an owner."""

JoinOf = Callable[[Leg], Join | None]
"""The join of this decode leg, or None if it is not a decode leg."""

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

    def __init__(self, history_of: HistoryOf, join_of: JoinOf, preload: Preload, page_size: int) -> None:
        self._history_of = history_of
        self._join_of = join_of
        self._preload = preload
        self._page_size = page_size

    def foreign_ranges(self, join: Join, pages: tuple[int, ...], first: int, last: int) -> list[ForeignRange]:
        """Owners of the token positions [first, last) that the decode leg read and its transfer did not write.

        `pages` are the leg's pages in token order from position 0. Positions past the known pages are left out: the
        caller counts them as unattributed.
        """
        size = self._page_size
        ranges: list[ForeignRange] = []
        self._prepare(join.decode, pages[first // size : -(-last // size)])
        for position in range(first, min(last, len(pages) * size)):
            index, slot = divmod(position, size)
            owner = self._owner_of_read(join, index, pages[index], slot)
            previous = ranges[-1] if ranges else None
            if previous and previous.page == pages[index] and previous.slot_end == slot and previous.owner == owner:
                ranges[-1] = ForeignRange(previous.page, previous.slot_start, slot + 1, previous.token_start, owner)
            else:
                ranges.append(ForeignRange(pages[index], slot, slot + 1, position, owner))
        return ranges

    def _prepare(self, decode: Leg, pages: Iterable[int]) -> None:
        """The latest holders of a leg's pages are asked for slot by slot below: get them in one query, not one each."""
        history = self._history_of(decode.emitter, decode.boot)
        before = decode.reserved_seq if decode.reserved_seq is not None else decode.first_seq
        found = (islice(history.holders(page, before, decode), LIKELY_HOLDERS) for page in set(pages))
        self._preload({holder.leg.uid for holders in found for holder in holders if holder is not None})

    def _owner_of_read(self, join: Join, index: int, page: int, slot: int) -> SlotOwner:
        source = _source_of(join, index, self._page_size)
        if source is not None:
            page_id, before_seq = source
            assert join.prefill is not None  # a source page comes from its chunks
            return self.prefill_owner(join.prefill, page_id, slot, before_seq, "transfer_tail")
        decode = join.decode
        before = decode.reserved_seq if decode.reserved_seq is not None else decode.first_seq
        return self.decode_owner(decode, page, slot, before, "stale_page")

    def holders(self, leg: Leg, page: int, before_seq: int) -> Iterator[Holder | None]:
        """Legs that held a page of this leg's pool, which may be shared through a cache, before this seq."""
        return self._history_of(leg.emitter, leg.boot).holders(page, before_seq, leg, shared=True)

    def prefill_owner(
        self, leg: Leg, page: int, slot: int, before_seq: int, via: str, *, shared: bool = False
    ) -> SlotOwner:
        """Last forward on that prefill pool that wrote the slot before this leg took the page."""
        for holder in self._history_of(leg.emitter, leg.boot).holders(page, before_seq, leg, shared=shared):
            if holder is None:
                return SlotOwner("unattributed", via)
            if holder.leg.uid == leg.uid:
                continue
            if holder.wrote(slot, self._page_size):
                return SlotOwner("owned", via, holder.leg)
        return SlotOwner("no_writer", via)

    def decode_owner(
        self, leg: Leg, page: int, slot: int, before_seq: int, via: str, *, shared: bool = False
    ) -> SlotOwner:
        """Last write to the slot on that decode pool before `before_seq`: a decode step's, or a transfer's."""
        for holder in self._history_of(leg.emitter, leg.boot).holders(page, before_seq, leg, shared=shared):
            if holder is None:
                return SlotOwner("unattributed", via)
            if holder.leg.uid == leg.uid:
                continue
            owner = self._owner_in_holder(holder, slot, via)
            if owner is not None:
                return owner
        return SlotOwner("no_writer", via)

    def _owner_in_holder(self, holder: Holder, slot: int, via: str) -> SlotOwner | None:
        """What this holder's leg left in the slot; None if it did not touch it."""
        if holder.wrote(slot, self._page_size):
            return SlotOwner("owned", via, holder.leg)
        join = self._join_of(holder.leg)
        prefix = holder.leg.prefix_tokens or 0
        if holder.index < prefix // self._page_size:
            return None  # a shared prefix page: this leg wrote nothing there
        if join is None or join.prefill is None or not join.prefill.sends_known:
            return SlotOwner("unattributed", via)  # nobody can say what was sent to it
        source = _source_of(join, holder.index, self._page_size)
        if source is None:
            return None
        if not holder.leg.committed and holder.leg.read_tokens is None:
            return SlotOwner("unattributed", via)  # queued, but whether it landed was never seen
        position = holder.index * self._page_size + slot
        if position < _tokens_end(join, holder.index, self._page_size):
            return SlotOwner("owned", via, holder.leg)
        page_id, before_seq = source
        return self.prefill_owner(join.prefill, page_id, slot, before_seq, "transfer_tail")


def _chunks_at(join: Join, index: int, page_size: int) -> Iterator[tuple[int, int, int, int]]:
    """(source page, seq, first token, tokens) of each chunk that covers the page at this position of the leg."""
    if join.prefill is None:
        return
    offset = (join.decode.prefix_tokens or 0) // page_size
    for chunk in join.prefill.chunks:
        inside = index - offset - chunk.first_page
        if 0 <= inside < len(chunk.pages):
            yield chunk.pages[inside], chunk.seq, (offset + chunk.first_page) * page_size, chunk.tokens


def _source_of(join: Join, index: int, page_size: int) -> tuple[int, int] | None:
    """Source page on prefill, and the seq of the fact that queued it, for the leg's page at this position."""
    found = None
    for page, seq, _first, _tokens in _chunks_at(join, index, page_size):
        found = (page, seq)
    return found


def _tokens_end(join: Join, index: int, page_size: int) -> int:
    """One past the last token position that the transfer validly wrote on the page at this position."""
    return max((first + tokens for _page, _seq, first, tokens in _chunks_at(join, index, page_size)), default=0)
