"""Reads request bodies within bounds: as they arrive, and as they unfold."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

_GZIP = 16 + zlib.MAX_WBITS
_DRAIN_SECONDS = 5.0
_MAX_MEMBERS = 64


class BodyTooLargeError(Exception):
    """The body is, or would become, larger than the receiver takes."""


class BodyTooSlowError(Exception):
    """The body did not arrive in time."""


class BadGzipError(Exception):
    """The body is not gzip, or not all of it."""


def check_announced(content_length: str | None, limit: int) -> None:
    """Raise BodyTooLargeError for a body whose Content-Length is over the limit, before any of it is read."""
    if content_length is not None and content_length.isdecimal() and int(content_length[:20]) > limit:
        raise BodyTooLargeError(
            f"the body has {content_length[:20]} bytes, and at most {limit} are taken: send smaller batches"
        )


async def read_body(chunks: AsyncIterator[bytes], limit: int, seconds: float) -> bytes:
    """The whole body. Keeps at most `limit` bytes of it. Raises BodyTooLargeError or BodyTooSlowError."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                if len(body) + len(chunk) > limit:
                    raise BodyTooLargeError(f"the body is larger than {limit} bytes: send smaller batches")
                body += chunk
    except TimeoutError:
        raise BodyTooSlowError(f"the body did not arrive within {seconds:g} seconds") from None
    return bytes(body)


async def drain(chunks: AsyncIterator[bytes]) -> None:
    """Let the rest of a refused body pass by, for a while: a client that still sends does not read the answer."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except TimeoutError:
        pass


def gunzip(packed: bytes, limit: int) -> bytes:
    """Unpack gzip. Never makes more than `limit` + 1 bytes, whatever the data promises.

    Raises BodyTooLargeError, or BadGzipError for data that is not gzip, is damaged, or ends too early.
    """
    unpacked = bytearray()
    rest = packed
    for _ in range(_MAX_MEMBERS):
        member = zlib.decompressobj(_GZIP)
        try:
            unpacked += member.decompress(rest, limit + 1 - len(unpacked))
        except zlib.error:
            raise BadGzipError(f"the body ({len(packed)} bytes) is not gzip, or damaged") from None
        if len(unpacked) > limit:
            raise BodyTooLargeError(f"the body unpacks to more than {limit} bytes: send smaller batches")
        if not member.eof:
            raise BadGzipError(f"the gzip data ends too early, after {len(packed)} bytes")
        rest = member.unused_data
        if not rest:
            return bytes(unpacked)
    raise BadGzipError(f"the body has more than {_MAX_MEMBERS} gzip members")
