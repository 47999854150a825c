"""Reads the files of the truth plugin: what each scheduler process wrote down, in order of time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from lab.engine.errors import LabError


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a file. `t` is CLOCK_MONOTONIC in ns, one clock for all processes; `rank` that of the process."""

    t: int
    rank: int


@dataclass(frozen=True, slots=True)
class Start(Record):
    """A scheduler process and its pool. `untouched` is the hash of a slot that nothing ever wrote."""

    role: str
    version: str
    page_size: int
    slots: int
    untouched: str


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    """What the pages of a transfer held on decode before prefill could know of them."""

    room: int
    hash_of: dict[int, str]


@dataclass(frozen=True, slots=True)
class Slots(Record):
    """Slots of one request and their hashes, one for one, in order of position."""

    rid: str
    slots: tuple[int, ...]
    hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write(Slots):
    """What a forward wrote for a request, from position `start` on."""

    role: str
    start: int


@dataclass(frozen=True, slots=True)
class Reuse(Slots):
    """Slots that the engine gave a request for its first positions because the same text had been computed before."""

    role: str


@dataclass(frozen=True, slots=True)
class Read(Slots):
    """What a request on decode was about to read with its first step, or its first one after a retraction.

    For the positions [0, prompt), and then those of its answer that it had written before.
    """

    room: int


@dataclass(frozen=True, slots=True)
class Last(Slots):
    """What a request on decode had in its slots when it gave them back, for every position."""


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True, slots=True)
class Records:
    """All records of one run, each kind in order of time."""

    starts: tuple[Start, ...]
    writes: tuple[Write, ...]
    snapshots: tuple[Snapshot, ...]
    reuses: tuple[Reuse, ...]
    reads: tuple[Read, ...]
    lasts: tuple[Last, ...]

    @property
    def ranks(self) -> range:
        """The ranks of each node."""
        return range(len(self.starts) // 2)

    def of_rank(self, rank: int) -> Records:
        """What this rank of both nodes wrote down."""
        return Records(*(_of_rank(records, rank) for records in _kinds(self)))


def _kinds(records: Records) -> tuple[tuple[Any, ...], ...]:
    return tuple(getattr(records, field.name) for field in fields(records))


def _of_rank(records: tuple[AnyRecord, ...], rank: int) -> tuple[AnyRecord, ...]:
    return tuple(record for record in records if record.rank == rank)


def load(folder: Path) -> Records:
    """Every file of the truth plugin in `folder`.

    Raises LabError when the plugin reported an error of its own, when not exactly one process of each rank of both
    roles wrote a file, or when a line is damaged.
    """
    files = sorted(folder.glob("*.jsonl"))
    return collect(line for file in files for line in _lines(file))


def collect(lines: Iterable[dict[str, Any]]) -> Records:
    """The records behind decoded lines, each line with the `role` of its file. Raises LabError as `load`."""
    found: dict[type[Record], list[Any]] = {kind: [] for kind in (Start, Write, Snapshot, Reuse, Read, Last)}
    for line in lines:
        record = _record(line)
        found[type(record)].append(record)
    whose = sorted((start.rank, start.role) for start in found[Start])
    ranks = {rank for rank, _ in whose}
    if not whose or whose != [(rank, role) for rank in range(len(ranks)) for role in ("decode", "prefill")]:
        have = ", ".join(f"{role} rank {rank}" for rank, role in whose)
        raise LabError(f"the truth needs one decode and one prefill process of each rank; it has {have or 'none'}")
    return Records(*(_in_order(records) for records in found.values()))


def _record(line: dict[str, Any]) -> Record:
    kind, when = line["kind"], (int(line["t"]), int(line.get("rank", 0)))
    role = line["role"]
    if kind == "error":
        raise LabError(f"the truth plugin failed in {line['where']} on {role}: {line['what']}")
    if kind == "start":
        return Start(*when, role, line["version"], line["page_size"], line["slots"], line["untouched"])
    slots, hashes = tuple(line["slots"]), tuple(line["hashes"])
    if kind == "snapshot":
        return Snapshot(*when, line["room"], dict(zip(slots, hashes, strict=True)))
    if kind == "write":
        return Write(*when, line["rid"], slots, hashes, role, line["start"])
    if kind == "reuse":
        return Reuse(*when, line["rid"], slots, hashes, role)
    if kind == "read":
        return Read(*when, line["rid"], slots, hashes, line["room"])
    if kind == "last":
        return Last(*when, line["rid"], slots, hashes)
    raise LabError(f"the truth plugin wrote a line of unknown kind {kind!r}")


def _in_order(records: list[AnyRecord]) -> tuple[AnyRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.t))


def _lines(file: Path) -> list[dict[str, Any]]:
    role = file.name.partition("-")[0]
    try:
        return [json.loads(line) | {"role": role} for line in file.read_text().splitlines()]
    except json.JSONDecodeError as error:
        raise LabError(f"{file} has a damaged line: {error}") from error
