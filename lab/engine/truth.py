"""Who wrote the bytes that each response read: told from memory content alone, slot by slot.

For every slot that a decode request was about to read there must be exactly one owner, the request whose forward wrote
exactly these bytes. Where two requests wrote equal bytes (every rejected prompt is replaced by the same one token, and
one text has one KV), place decides: bytes that lay there before the transfer did not come from the reader, and bytes
that the engine shares on purpose belong to who wrote them in that place.
What stays open is an `Ambiguity`, and a run with one has no truth. Each rank is told for itself; all must agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from lab.engine.truth_places import Grants, Places
from lab.engine.truth_records import Last, Read, Record, Records, Write

STALE_PAGE = "stale_page"
"""The bytes lay in the page before it was reserved, and nobody wrote over them."""

TRANSFER_TAIL = "transfer_tail"
"""The bytes came with the transfer, which copies whole pages: they lay beyond the valid tokens of the source page."""

LATE_WRITE = "late_write"
"""The bytes came after the page was reserved, but not with the reader's transfer: somebody else still wrote there."""

NEVER_WRITTEN = "never_written"
"""Nothing ever wrote the slot in the life of the process, or the slot of the source page whose tail came with it."""

SHARED = "shared"
"""The engine gave the reader the pages of an equal beginning on purpose: they are not foreign."""

OWN = "own"
"""The reader's own bytes."""

NOBODY = ""
"""Owner of a slot that was never written."""


@dataclass(frozen=True, slots=True)
class SlotRead:
    """One slot that a response read: token position, place, whose bytes it held and how they came there."""

    position: int
    page: int
    slot: int
    owner: str
    via: str


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A slot of which the owner cannot be told, and why."""

    rid: str
    position: int
    page: int
    slot: int
    why: str

    def __str__(self) -> str:
        return f"{self.rid} position {self.position} (page {self.page}, slot {self.slot}): {self.why}"


@dataclass(frozen=True, slots=True)
class ResponseTruth:
    """What one response read: the positions of its prompt, in order; `again`: what it read anew after retractions."""

    rid: str
    slots: tuple[SlotRead, ...]
    again: tuple[SlotRead, ...] = ()

    @property
    def foreign(self) -> tuple[SlotRead, ...]:
        """The slots that did not hold the reader's bytes, and were not shared with it on purpose."""
        return tuple(slot for slot in (*self.slots, *self.again) if slot.via not in (OWN, SHARED))

    @property
    def shared(self) -> tuple[SlotRead, ...]:
        """The slots that hold another request's bytes because the engine shares them on purpose."""
        return tuple(slot for slot in (*self.slots, *self.again) if slot.via == SHARED)


@dataclass(frozen=True, slots=True)
class Truth:
    """All responses of a run, in order of their first read. With any ambiguity it is not a truth."""

    page_size: int
    responses: tuple[ResponseTruth, ...]
    ambiguities: tuple[Ambiguity, ...]


class _Authors:
    """Who wrote which bytes: (time, rid, position) of each write, by hash."""

    def __init__(self, records: Records) -> None:
        self._by_hash: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
        self._sent: dict[str, int] = {}  # rid -> last position that prefill computed for it
        for write in records.writes:
            for position, digest in enumerate(write.hashes, start=write.start):
                self._by_hash[digest].append((write.t, write.rid, position))
            if write.role == "prefill":
                self._sent[write.rid] = max(self._sent.get(write.rid, 0), write.start + len(write.slots) - 1)

    def until(self, digest: str, t: int) -> set[tuple[str, int]]:
        """(rid, position) of everyone who wrote these bytes before time t."""
        return {(rid, position) for when, rid, position in self._by_hash.get(digest, ()) if when < t}

    def in_tail(self, rid: str, position: int, page_size: int) -> bool:
        """Whether this position lies in the last page that prefill sends for a request, beyond its valid tokens."""
        last = self._sent.get(rid, -1)
        return position > last >= 0 and position // page_size == last // page_size


def join(records: Records) -> Truth:
    """The truth of a run from the records of all processes."""
    first, *others = [_Rank(records.of_rank(rank)).truth() for rank in records.ranks]
    differences = tuple(
        difference for rank, other in enumerate(others, start=1) for difference in _differences(first, rank, other)
    )
    ambiguities = (*first.ambiguities, *(each for other in others for each in other.ambiguities), *differences)
    return Truth(first.page_size, first.responses, ambiguities)


def _differences(first: Truth, rank: int, other: Truth) -> Iterator[Ambiguity]:
    for mine, its in zip_longest(sorted(first.responses, key=_rid), sorted(other.responses, key=_rid)):
        if mine != its:
            rid = (mine or its).rid
            yield Ambiguity(rid, 0, 0, 0, f"rank {rank} read other slots than rank 0")


def _rid(response: ResponseTruth) -> str:
    return response.rid


class _Rank:
    """The join of one rank."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._size = records.starts[0].page_size
        self._untouched = next(start.untouched for start in records.starts if start.role == "decode")
        self._authors = _Authors(records)
        self._places = Places(records.writes)

    def truth(self) -> Truth:
        """What this rank of decode read."""
        first: dict[str, tuple[SlotRead, ...]] = {}
        again: dict[str, tuple[SlotRead, ...]] = defaultdict(tuple)
        ambiguities: list[Ambiguity] = []
        for read in self._records.reads:
            judged = self._judged(read, resumed=read.rid in first)
            slots = tuple(one for one in judged if isinstance(one, SlotRead))
            ambiguities += [one for one in judged if isinstance(one, Ambiguity)]
            if read.rid in first:
                again[read.rid] += slots
            else:
                first[read.rid] = slots
        ambiguities += _later_changes(self._records, self._size)
        responses = tuple(ResponseTruth(rid, slots, again[rid]) for rid, slots in first.items())
        return Truth(self._size, responses, tuple(ambiguities))

    def _judged(self, read: Read, *, resumed: bool) -> list[SlotRead | Ambiguity]:
        before = {} if resumed else self._snapshot_of(read)
        grants = self._places.grants(self._records.reuses, read)
        judged = [self._judge(read, position, before, grants) for position in range(len(read.slots))]
        for one, slot, digest in zip(judged, read.slots, read.hashes, strict=True):
            if isinstance(one, SlotRead):
                self._places.put("decode", slot, read.t, digest, one.owner)
        return judged

    def _snapshot_of(self, read: Read) -> dict[int, str]:
        """Hashes of the reader's slots before its transfer, by slot: the last snapshot of its room."""
        found = [each for each in self._records.snapshots if each.room == read.room and each.t < read.t]
        return found[-1].hash_of if found else {}

    def _judge(self, read: Read, position: int, before: dict[int, str], grants: Grants) -> SlotRead | Ambiguity:
        slot, digest = read.slots[position], read.hashes[position]
        page, offset = divmod(slot, self._size)

        def open_question(why: str) -> Ambiguity:
            return Ambiguity(read.rid, position, page, offset, why)

        def told(owner: str, via: str) -> SlotRead:
            return SlotRead(position, page, offset, owner, OWN if owner == read.rid else via)

        if (holder := grants.in_place(position, slot, digest)) is not None:
            return told(holder, SHARED)
        writers = self._authors.until(digest, read.t)
        others = sorted({rid for rid, _ in writers} - {read.rid})
        reader_wrote_it = (read.rid, position) in writers
        if reader_wrote_it and not others:  # wherever these bytes lie, there is nobody else whose they could be
            return told(read.rid, OWN)
        if slot not in before:
            return open_question("no snapshot of this slot was taken before the transfer")
        unchanged = before[slot] == digest
        in_tail = self._authors.in_tail(read.rid, position, self._size)
        if not writers and digest == self._untouched and (unchanged or in_tail):
            return told(NOBODY, NEVER_WRITTEN)
        if not writers:
            return open_question("nobody wrote these bytes: the pool was not warm")
        granted = grants.by_transfer(position, digest)
        if unchanged and (reader_wrote_it or granted is not None):
            return open_question("the reader wrote these bytes, and the slot held them before")
        if reader_wrote_it:
            return told(read.rid, OWN)
        if granted is not None:
            return told(granted, SHARED)
        if not unchanged and any(rid == read.rid for rid, _ in writers):
            return open_question("the reader wrote these bytes, but for another position")
        if len(others) != 1:
            return open_question(f"{len(others)} other requests wrote these bytes: {', '.join(others)}")
        if unchanged:
            return told(others[0], STALE_PAGE)
        return told(others[0], TRANSFER_TAIL if in_tail else LATE_WRITE)


def _later_changes(records: Records, page_size: int) -> list[Ambiguity]:
    """What a response read later must be what it read first, and for its own tokens what it wrote itself."""
    expected: dict[str, dict[int, str]] = {}
    changes = []
    events: list[Record] = [*records.reads, *records.writes, *records.lasts]
    for event in sorted(events, key=lambda each: each.t):
        if isinstance(event, Read):
            expected[event.rid] = dict(enumerate(event.hashes))
        elif isinstance(event, Write):
            if event.role == "decode" and event.rid in expected:
                expected[event.rid].update(enumerate(event.hashes, start=event.start))
        elif isinstance(event, Last):
            known = expected.get(event.rid, {})
            for position, (slot, digest) in enumerate(zip(event.slots, event.hashes, strict=True)):
                if known.get(position, digest) != digest:
                    why = "the slot's bytes changed while the response was being generated"
                    changes.append(Ambiguity(event.rid, position, *divmod(slot, page_size), why))
    return changes


@dataclass(frozen=True, slots=True)
class Range:
    """Neighbouring slots of one page with one owner, half-open; `token_start` is the position of the first."""

    page: int
    slot_start: int
    slot_end: int
    token_start: int
    owner: str
    via: str


def ranges(slots: tuple[SlotRead, ...]) -> list[Range]:
    """Neighbours in place and position, with one owner and one way in, as one range."""
    if not slots:
        return []
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(slots), start=1) if not _neighbours(a, b)), len(slots)]
    return [_range(slots[start:end]) for start, end in pairwise(breaks)]


def _neighbours(a: SlotRead, b: SlotRead) -> bool:
    same = (a.page, a.owner, a.via) == (b.page, b.owner, b.via)
    return same and b.slot == a.slot + 1 and b.position == a.position + 1


def _range(part: tuple[SlotRead, ...]) -> Range:
    first, last = part[0], part[-1]
    return Range(first.page, first.slot, last.slot + 1, first.position, first.owner, first.via)
