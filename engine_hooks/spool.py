"""A bounded disk queue for messages that the receiver does not take at the moment.

One file a message: a line of JSON that says what it holds and how long the rest is, then the gzipped OTLP message. A
message counts as stored once its file, under its final name, is on the disk (fsync of file and directory). Files are
numbered; per boot they go out in that order.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import zlib
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path

from engine_hooks.batch import Batch

_log = logging.getLogger(__name__)
_SUFFIX = ".otlp"
_UNFINISHED = ".otlp.new"
_BROKEN = ".broken"
_FORMAT = "pagewitness-spool-1"
_BLOCK = 4096  # a file takes at least this much of the disk
_MAX_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored message: its file, its size on the disk in bytes, and which facts it holds (see `batch.Batch`)."""

    path: Path
    size: int
    emitter: str
    boot: str
    first: int
    last: int
    attests_ns: int


@dataclass(frozen=True, slots=True)
class _Head:
    format: str
    emitter: str
    boot: str
    first: int
    last: int
    attests_ns: int
    bytes: int
    crc32: int


_KINDS = {name: {"str": str, "int": int}[str(kind)] for name, kind in _Head.__annotations__.items()}
_NAMES = set(_KINDS)


class Spool:
    """The queue in `directory` (made 0700 if missing), at most `limit` bytes on the disk. For one process."""

    def __init__(self, directory: Path, limit: int) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._limit = limit
        self._entries: dict[int, Entry] = {}
        self._holds: dict[str, int] = {}
        self._next = 1
        self.size = 0
        self.broken = 0
        """Files found damaged since the start: their facts are lost."""
        self._load()

    def __len__(self) -> int:
        return len(self._entries)

    def holds(self, boot: str) -> bool:
        """Whether there are messages of this boot."""
        return self._holds.get(boot, 0) > 0

    def put(self, batch: Batch) -> bool:
        """Store a message. False if there is no room for it, or the disk does not take it (said in the log)."""
        body = gzip.compress(batch.body, 1, mtime=0)
        head = _Head(
            _FORMAT, batch.emitter, batch.boot, batch.first, batch.last, batch.attests_ns, len(body), zlib.crc32(body)
        )
        content = json.dumps(asdict(head)).encode() + b"\n" + body
        size = _on_disk(len(content))
        if self.size + size > self._limit:
            return False
        number = self._next
        path = self._directory / f"{number:020d}{_SUFFIX}"
        try:
            self._write(path, content)
        except OSError as error:
            _log.error("cannot write to the spool in %s: %s; the facts stay in their ring", self._directory, error)
            return False
        self._next += 1
        self._add(number, Entry(path, size, batch.emitter, batch.boot, batch.first, batch.last, batch.attests_ns))
        return True

    def oldest(self, without: Container[str] = ()) -> Entry | None:
        """The oldest message whose boot is not in `without`."""
        return next((entry for entry in self._entries.values() if entry.boot not in without), None)

    def read(self, entry: Entry) -> bytes | None:
        """The gzipped message; None if its file is damaged or gone: it is then set aside, counted and logged."""
        try:
            _, body = _parse(entry.path.read_bytes())
            return body
        except (OSError, ValueError) as error:
            self._forget(entry)
            self._set_aside(entry.path, error)
            return None

    def remove(self, entry: Entry) -> None:
        """The message was delivered."""
        entry.path.unlink(missing_ok=True)
        self._forget(entry)

    def _load(self) -> None:
        for path in sorted(self._directory.iterdir()):
            if path.name.endswith(_UNFINISHED):
                path.unlink()  # never counted as stored
            elif path.suffix == _BROKEN:
                self.size += _on_disk(path.stat().st_size)
            elif path.suffix == _SUFFIX and path.stem.isdigit():
                self._next = int(path.stem) + 1
                try:
                    entry = _look_at(path)
                except (OSError, ValueError) as error:
                    self._set_aside(path, error)
                else:
                    self._add(int(path.stem), entry)

    def _add(self, number: int, entry: Entry) -> None:
        self._entries[number] = entry
        self._holds[entry.boot] = self._holds.get(entry.boot, 0) + 1
        self.size += entry.size

    def _forget(self, entry: Entry) -> None:
        del self._entries[int(entry.path.stem)]
        self._holds[entry.boot] -= 1
        self.size -= entry.size

    def _set_aside(self, path: Path, error: Exception) -> None:
        self.broken += 1
        _log.error("spool file %s is damaged (%s): its facts are lost; kept as %s%s", path, error, path.name, _BROKEN)
        try:
            aside = path.rename(path.with_name(path.name + _BROKEN))
            self.size += _on_disk(aside.stat().st_size)
        except FileNotFoundError:
            pass  # it was gone: nothing to keep

    def _write(self, path: Path, content: bytes) -> None:
        unfinished = path.with_suffix(_UNFINISHED)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
            folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            unfinished.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise


def _on_disk(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _look_at(path: Path) -> Entry:
    """What a file says of itself; whether its checksum holds is seen when it is sent."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = _parse_head(file.readline(_MAX_HEAD))
        promised = file.tell() + head.bytes
    if promised != size:
        raise ValueError(f"it has {size} bytes, not {promised}")
    return Entry(path, _on_disk(size), head.emitter, head.boot, head.first, head.last, head.attests_ns)


def _parse(content: bytes) -> tuple[_Head, bytes]:
    line, _, body = content.partition(b"\n")
    head = _parse_head(line)
    if len(body) != head.bytes or zlib.crc32(body) != head.crc32:
        raise ValueError("its checksum does not hold")
    return head, body


def _parse_head(line: bytes) -> _Head:
    try:
        content = json.loads(line)
        if set(content) == _NAMES and content["format"] == _FORMAT:
            return _Head(**{name: _KINDS[name](value) for name, value in content.items()})
    except (TypeError, ValueError):
        pass  # the same finding as another format
    raise ValueError("its first line is not what the spool writes")
