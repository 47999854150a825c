"""Who wrote the bytes that each response read: told from memory content alone, slot by slot.

For every slot that a decode request was about to read there must be exactly one owner, the request whose forward wrote
exactly these bytes. Where two requests wrote equal bytes (every rejected prompt is replaced by the same one token),
the snapshot taken before the transfer decides: bytes that were there before did not come from the reader.
What stays open is an `Ambiguity`, and a run with one has no truth.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from lab.engine.truth_records import Read, Records

STALE_PAGE = "stale_page"
"""The bytes lay in the page before it was reserved, and nobody wrote over them."""

TRANSFER_TAIL = "transfer_tail"
"""The bytes came with the transfer, which copies whole pages: they lay beyond the valid tokens of the source page."""

OWN = "own"
"""The reader's own bytes."""


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
    """What one response read of the positions of its prompt, in order."""

    rid: str
    slots: tuple[SlotRead, ...]

    @property
    def foreign(self) -> tuple[SlotRead, ...]:
        """The slots that held another request's bytes."""
        return tuple(slot for slot in self.slots if slot.owner != self.rid)


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
        for write in records.writes:
            for position, digest in enumerate(write.hashes, start=write.start):
                self._by_hash[digest].append((write.t, write.rid, position))

    def until(self, digest: str, t: int) -> set[tuple[str, int]]:
        """(rid, position) of everyone who wrote these bytes before time t."""
        return {(rid, position) for when, rid, position in self._by_hash.get(digest, ()) if when < t}


def join(records: Records) -> Truth:
    """The truth of a run from the records of both processes."""
    authors = _Authors(records)
    page_size = records.starts[0].page_size
    responses = []
    ambiguities: list[Ambiguity] = []
    for read in records.reads:
        before = _snapshot_of(records, read)
        judged = [_judge(read, position, authors, before, page_size) for position in range(len(read.slots))]
        responses.append(ResponseTruth(read.rid, tuple(one for one in judged if isinstance(one, SlotRead))))
        ambiguities += [one for one in judged if isinstance(one, Ambiguity)]
    ambiguities += _later_changes(records, page_size)
    return Truth(page_size, tuple(responses), tuple(ambiguities))


def _snapshot_of(records: Records, read: Read) -> dict[int, str]:
    """Hashes of the reader's slots before its transfer, by slot: the last snapshot of its room."""
    found = [snapshot for snapshot in records.snapshots if snapshot.room == read.room and snapshot.t < read.t]
    return found[-1].hash_of if found else {}


def _judge(
    read: Read, position: int, authors: _Authors, before: dict[int, str], page_size: int
) -> SlotRead | Ambiguity:
    slot, digest = read.slots[position], read.hashes[position]
    page, offset = divmod(slot, page_size)

    def open_question(why: str) -> Ambiguity:
        return Ambiguity(read.rid, position, page, offset, why)

    writers = authors.until(digest, read.t)
    others = sorted({rid for rid, _ in writers} - {read.rid})
    reader_wrote_it = (read.rid, position) in writers
    if slot not in before:
        return open_question("no snapshot of this slot was taken before the transfer")
    if not writers:
        return open_question("nobody wrote these bytes: the pool was not warm")
    unchanged = before[slot] == digest
    if reader_wrote_it and unchanged:
        return open_question("the reader wrote these bytes, and the slot held them before")
    if reader_wrote_it:
        return SlotRead(position, page, offset, read.rid, OWN)
    if not unchanged and any(rid == read.rid for rid, _ in writers):
        return open_question("the reader wrote these bytes, but for another position")
    if len(others) != 1:
        return open_question(f"{len(others)} other requests wrote these bytes: {', '.join(others)}")
    return SlotRead(position, page, offset, others[0], STALE_PAGE if unchanged else TRANSFER_TAIL)


def _later_changes(records: Records, page_size: int) -> list[Ambiguity]:
    """What a response read later must be what it read first, and for its own tokens what it wrote itself."""
    expected: dict[str, dict[int, str]] = {}
    for read in records.reads:
        expected[read.rid] = dict(enumerate(read.hashes))
    for write in records.writes:
        if write.role == "decode" and write.rid in expected:
            expected[write.rid].update({write.start + offset: digest for offset, digest in enumerate(write.hashes)})
    changes = []
    for last in records.lasts:
        for position, (slot, digest) in enumerate(zip(last.slots, last.hashes, strict=True)):
            if expected[last.rid].get(position) != digest:
                why = "the slot's bytes changed while the response was being generated"
                changes.append(Ambiguity(last.rid, position, *divmod(slot, page_size), why))
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
