"""What each response really attended over: looked up in the content of the decode pool when it reads, in no fact.

A slot of the request's own is one whose KV it computed itself. A slot that came out of a prefix cache (decode's, or
prefill's and then through the transfer) is right if its tokens are the request's own too, whoever computed them.
Everything else that is read is foreign. Foreign KV that came through decode's prefix cache is kept apart from what was
read directly: it makes the response derived, as KV does that was computed over foreign KV.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lab.fleet.job import Job
from lab.fleet.pages import PagePool, Slots
from lab.fleet.workload import Workload

SlotTruth = NDArray[np.int64]
"""Rows of (page, slot, writer, owner). `writer` is the request whose forward computed the KV, `owner` the one whose
tokens it stood for: another where that one had it out of a prefix cache. Indexes of requests, -1 for nobody."""

_NONE: SlotTruth = np.zeros((0, 4), np.int64)


@dataclass(slots=True)
class ResponseTruth:
    """What one response attended over that was not its own. `through_cache` is foreign KV out of decode's cache."""

    foreign: SlotTruth = field(default_factory=lambda: _NONE)
    through_cache: SlotTruth = field(default_factory=lambda: _NONE)
    derived: bool = False  # it attended over KV that was computed over foreign KV, or over foreign KV from a cache
    owners: set[int] = field(default_factory=set)  # of `foreign`
    legs: list[bytes] = field(default_factory=list)  # uids of its decode legs
    prefill: bytes = b""  # uid of its prefill leg

    @property
    def affected(self) -> bool:
        """Whether it attended over foreign KV in any way."""
        return bool(self.owners) or self.derived


@dataclass(slots=True)
class Truth:
    """The truth of every response that was affected, by request index; those that read and are not here read nothing
    foreign. `slots`: whether each slot is kept, or only whose they were: a prompt of a million tokens has a million."""

    workload: Workload
    slots: bool = True
    affected: dict[int, ResponseTruth] = field(default_factory=dict)
    readers: int = 0

    def observe(self, job: Job, pool: PagePool, tokens: int) -> None:
        """The request attends over its token positions [0, tokens) now. Marks it as tainted where it must be."""
        pages = job.decode_pages
        writer, placed, taint = pool.content(pages, tokens)
        strange = (writer != job.number) | (placed != job.number)
        if not strange.any() and not taint.any():
            return
        positions = np.nonzero(strange)[0]
        right = self._right(job, writer[positions], placed[positions], positions)
        foreign = positions[~right]
        from_cache = foreign < job.reused
        direct, cached = foreign[~from_cache], foreign[from_cache]
        reused = taint[: job.prompt].copy()  # behind it, the request wrote itself
        reused[direct[direct < job.prompt]] = False
        derived = bool(len(cached)) or bool(reused.any())
        if not len(foreign) and not derived:
            return
        job.tainted = True
        said = self.affected.setdefault(job.index, ResponseTruth())
        size = pool.page_size
        said.legs, said.prefill = job.leg_uids, job.prefill_uid
        said.derived |= derived
        owners = self._owners(writer[direct], placed[direct])
        said.owners |= set(_distinct(owners))
        if self.slots:
            said.foreign = _with(said.foreign, pages, direct, size, writer, owners)
            owners = self._owners(writer[cached], placed[cached])
            said.through_cache = _with(said.through_cache, pages, cached, size, writer, owners)

    def _right(self, job: Job, writer: Slots, placed: Slots, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these slots hold KV of the request's own tokens that came the right way."""
        came = (placed == job.number) | (positions < job.reused)
        bound = max(job.reused, job.prefill_cached)
        right = np.zeros(len(positions), np.bool_)
        for one in _distinct(writer[came]):
            known = self.workload.common(job.index, one - 1) if one and one != job.number else 0
            limit = len(job.decode_pages) << 32 if one == job.number else min(bound, known)
            right |= came & (writer == one) & (positions < limit)
        return right

    def _owners(self, writer: Slots, placed: Slots) -> NDArray[np.int64]:
        """Whose KV is in slots with this content."""
        content = writer.astype(np.int64) << 32 | placed
        starts = np.flatnonzero(np.diff(content, prepend=-1))  # of few long runs
        known = {pair: self._owner(pair >> 32, pair & 0xFFFFFFFF) for pair in set(content[starts].tolist())}
        of_runs = np.array([known[pair] for pair in content[starts].tolist()], np.int64)
        return np.repeat(of_runs, np.diff(starts, append=len(content)))

    def _owner(self, wrote: int, stood: int) -> int:
        if wrote and stood and wrote != stood and self.workload.common(wrote - 1, stood - 1):
            return stood - 1
        return wrote - 1


def _with(
    known: SlotTruth,
    pages: Slots,
    positions: NDArray[np.int64],
    size: int,
    writer: Slots,
    owners: NDArray[np.int64],
) -> SlotTruth:
    if not len(positions):
        return known
    wrote = writer[positions].astype(np.int64) - 1
    rows = np.stack([pages[positions // size], positions % size, wrote, owners], axis=1)
    return _once(np.concatenate([known, rows])) if len(known) else rows


def _distinct(values: Slots | NDArray[np.int64]) -> list[int]:
    """The distinct values of few long runs."""
    if not len(values):
        return []
    return sorted({*values[np.flatnonzero(np.diff(values))].tolist(), int(values[-1])})


def _sorted_once(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Like np.unique, whose hashing takes ten times as long on a million numbers in long runs."""
    ordered: NDArray[np.int64] = np.sort(numbers)
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]


def _once(rows: SlotTruth) -> SlotTruth:
    """Each row once, in order. As one number a row where four fit into one, which is much faster."""
    low = rows.min(axis=0)
    bits = [int(top).bit_length() for top in rows.max(axis=0) - low]
    if sum(bits) > 62:
        return np.unique(rows, axis=0)
    packed = np.zeros(len(rows), np.int64)
    for column, width in enumerate(bits):
        packed = packed << width | (rows[:, column] - low[column])
    packed = _sorted_once(packed)
    columns = []
    for column, width in reversed(list(enumerate(bits))):
        columns.append((packed & ((1 << width) - 1)) + low[column])
        packed = packed >> width
    return np.stack(columns[::-1], axis=1)


def ranges(slots: SlotTruth) -> list[tuple[int, int, int, int]]:
    """(page, first slot, one past the last, owner) of runs of slots with one owner."""
    found: list[tuple[int, int, int, int]] = []
    for page, slot, _, writer in slots.tolist():
        if found and found[-1][0] == page and found[-1][2] == slot and found[-1][3] == writer:
            found[-1] = (page, found[-1][1], slot + 1, writer)
        else:
            found.append((page, slot, slot + 1, writer))
    return found
