"""The file layout of a ring, shared by its writer and its reader.

A ring is one file: a header page, then the lanes. Every number in the header is an unsigned 64-bit word in the host's
byte order, so that each load and store is one machine access and never torn. The words have one owner each: the
recording process, or the agent.

| bytes | owner | content |
|---|---|---|
| 0..127 | writer, once | magic, versions, sizes, pid, creation time |
| 128..191 | writer | closed flag, last seq, drops and errors of threads without a lane |
| 192..255 | agent | how far it got |
| 256..511 | writer, once | emitter, boot, checksum of all that is written once |
| 512.. | writer | one 64-byte block a lane: base, size (once); write cursor, drops, errors |
| 2048.. | agent | one 64-byte block a lane: read cursor |

Cursors count bytes for ever; a position in the lane is the cursor modulo the lane's size.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

MAGIC: Final = int.from_bytes(b"PWRING\r\n", "little")
RING_VERSION: Final = 1
HEADER_BYTES: Final = 4096
MAX_LANES: Final = 24
MIN_LANE_BYTES: Final = 1024
WRAP: Final = 0xFFFFFFFF
"""A record size that says: nothing more here, go on at the lane's start."""
SUFFIX: Final = ".ring"
UNFINISHED_SUFFIX: Final = ".new"

# Indexes of header words (byte offset / 8).
(W_MAGIC, W_VERSION, W_CONTRACT, W_CAPACITY, W_LANES, W_PID, W_CREATED) = range(7)
(W_CLOSED, W_LAST_SEQ, W_STRAY_DROPS, W_STRAY_ERRORS) = range(16, 20)
(A_TAKEN, A_ACKED, A_ATTESTED, A_LOST, A_HOLE) = range(24, 29)
(L_BASE, L_SIZE, L_WRITE, L_DROPS, L_ERRORS) = range(5)

_TEXT_OFFSET = 256
_TEXT = struct.Struct("@200sI16sI")  # emitter, its length, boot, checksum
_LANES_WORD = 512 // 8
_READ_WORD = 2048 // 8
_BLOCK = 64 // 8

_EMITTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,98}/[A-Za-z0-9][A-Za-z0-9._-]{0,98}\Z")

LIVE: WeakValueDictionary[bytes, object] = WeakValueDictionary()
"""Rings that this process writes, by boot. A process cannot see its own POSIX locks, so it looks here."""


class RingError(Exception):
    """A ring cannot be made or used. The message says which one, why and what to do."""


class RingCorruptError(RingError):
    """The bytes of a ring file are not a ring, or contradict each other."""


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """Where a lane lies: byte offset in the file and size in bytes."""

    base: int
    size: int


def check_emitter(emitter: str) -> str:
    """The emitter, if it is `<prefix>/<name>` of letters, digits and `._-`. Raises RingError otherwise."""
    if not _EMITTER.match(emitter):
        raise RingError(
            f"emitter {emitter[:80]!r} is not <prefix>/<name>, each 1 to 99 letters, digits, '.', '_' or '-'; "
            "set PAGEWITNESS_EMITTER to such a prefix"
        )
    return emitter


def file_name(emitter: str, boot: bytes) -> str:
    """Name of the ring file: the emitter with its '/' as '+', and the boot in hex."""
    return f"{emitter.replace('/', '+')}-{boot.hex()}{SUFFIX}"


def lane_word(lane: int) -> int:
    """Index of the first word of a lane's writer block."""
    return _LANES_WORD + lane * _BLOCK


def read_word(lane: int) -> int:
    """Index of the word that holds a lane's read cursor."""
    return _READ_WORD + lane * _BLOCK


def divide(capacity: int, lanes: int) -> list[LaneSpan]:
    """Split `capacity` bytes into lanes. The first has half: the scheduler thread, which starts first, records most.

    Raises RingError if a lane would be smaller than MIN_LANE_BYTES or there are more than MAX_LANES.
    """
    if not 1 <= lanes <= MAX_LANES:
        raise RingError(f"a ring has 1 to {MAX_LANES} lanes, not {lanes}")
    first = _aligned(capacity if lanes == 1 else capacity // 2)
    other = _aligned((capacity - first) // (lanes - 1)) if lanes > 1 else first
    if min(first, other) < MIN_LANE_BYTES:
        raise RingError(
            f"a ring of {capacity} bytes is too small for {lanes} lanes of at least {MIN_LANE_BYTES}; "
            "raise PAGEWITNESS_RING_BYTES"
        )
    spans = [LaneSpan(HEADER_BYTES, first)]
    spans += [LaneSpan(HEADER_BYTES + first + place * other, other) for place in range(lanes - 1)]
    return spans


def write_text(header: memoryview, emitter: str, boot: bytes) -> None:
    """Write emitter, boot and the checksum over everything that is written once. Call last."""
    name = emitter.encode("ascii")
    _TEXT.pack_into(header, _TEXT_OFFSET, name, len(name), boot, 0)
    _TEXT.pack_into(header, _TEXT_OFFSET, name, len(name), boot, _checksum(header))


def read_text(header: memoryview) -> tuple[str, bytes]:
    """Emitter and boot. Raises RingCorruptError if the checksum does not hold."""
    name, length, boot, checksum = _TEXT.unpack_from(header, _TEXT_OFFSET)
    if checksum != _checksum(header):
        raise RingCorruptError("the header's checksum does not hold")
    return name[:length].decode("ascii"), boot


def _checksum(header: memoryview) -> int:
    return zlib.crc32(header[_TEXT_OFFSET : _TEXT_OFFSET + _TEXT.size - 4], zlib.crc32(header[:128]))


def _aligned(size: int) -> int:
    return size & ~63
