"""Reads the files of the truth plugin: what each scheduler process wrote down, in order of time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lab.engine.errors import LabError


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a file. `t` is CLOCK_MONOTONIC in ns, one clock for all processes."""

    t: int


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
class Read(Slots):
    """What a request on decode was about to read, for the positions [0, prompt)."""

    room: int


@dataclass(frozen=True, slots=True)
class Last(Slots):
    """What a request on decode had in its slots after its last step, for every position."""


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True, slots=True)
class Records:
    """All records of one run, each kind in order of time."""

    starts: tuple[Start, ...]
    writes: tuple[Write, ...]
    snapshots: tuple[Snapshot, ...]
    reads: tuple[Read, ...]
    lasts: tuple[Last, ...]


def load(folder: Path) -> Records:
    """Every file of the truth plugin in `folder`.

    Raises LabError when the plugin reported an error of its own, when a role has no file or more than one, or when a
    line is damaged.
    """
    files = sorted(folder.glob("*.jsonl"))
    return collect(line for file in files for line in _lines(file))


def collect(lines: Iterable[dict[str, Any]]) -> Records:
    """The records behind decoded lines, each line with the `role` of its file. Raises LabError as `load`."""
    starts: list[Start] = []
    writes: list[Write] = []
    snapshots: list[Snapshot] = []
    reads: list[Read] = []
    lasts: list[Last] = []
    for line in lines:
        kind, t = line["kind"], int(line["t"])
        if kind == "error":
            raise LabError(f"the truth plugin failed in {line['where']} on {line['role']}: {line['what']}")
        if kind == "start":
            starts.append(Start(t, line["role"], line["version"], line["page_size"], line["slots"], line["untouched"]))
            continue
        slots, hashes = tuple(line["slots"]), tuple(line["hashes"])
        if kind == "write":
            writes.append(Write(t, line["rid"], slots, hashes, line["role"], line["start"]))
        elif kind == "snapshot":
            snapshots.append(Snapshot(t, line["room"], dict(zip(slots, hashes, strict=True))))
        elif kind == "read":
            reads.append(Read(t, line["rid"], slots, hashes, line["room"]))
        elif kind == "last":
            lasts.append(Last(t, line["rid"], slots, hashes))
        else:
            raise LabError(f"the truth plugin wrote a line of unknown kind {kind!r}")
    roles = sorted(start.role for start in starts)
    if roles != ["decode", "prefill"]:
        raise LabError(f"the truth needs one decode and one prefill process; it has {roles or 'none'}")
    return Records(_in_order(starts), _in_order(writes), _in_order(snapshots), _in_order(reads), _in_order(lasts))


def _in_order(records: list[AnyRecord]) -> tuple[AnyRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.t))


def _lines(file: Path) -> list[dict[str, Any]]:
    role = file.name.partition("-")[0]
    try:
        return [json.loads(line) | {"role": role} for line in file.read_text().splitlines()]
    except json.JSONDecodeError as error:
        raise LabError(f"{file} has a damaged line: {error}") from error
