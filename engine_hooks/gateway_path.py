"""Which inference path a request may reach, however a proxy between the gateway and the engine reads its path.

A server decodes a path once. What stands behind the gateway may decode it again, cut it where a URL ends, or take
backslashes for slashes. So every such reading counts: what only one of them takes for an inference path is one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from urllib.parse import unquote

from engine_hooks.gateway_exchange import Scope
from engine_hooks.gateway_request import RefusedError

_MOST_DECODINGS = 8
_ODD = re.compile(r"[^\w./~!$&'()*+,=:@-]")  # all that no path needs once it is decoded: blanks, controls, % ? # ; ...
_PARAMETERS = re.compile(r";[^/]*")
_AUTHORITY = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//[^/]*")


def plain(path: str) -> str:
    """A path as the most lenient router or client takes it: lower case, no dots, one slash at a time, none at the end.
    What is only nearly an inference path is taken for one, so that nothing slips by on its way to the engine."""
    return "/" + posixpath.normpath("/" + path.lower()).lstrip("/")


def find_path(scope: Scope, paths: Collection[str]) -> str | None:
    """The one of `paths` (each as `plain` gives it) that the request may reach; None: none.

    Raises RefusedError for a path that nobody can say this of: it is encoded too often, could be two of them, or has
    one of them behind characters that no path needs.
    """
    root = plain(scope.get("root_path") or "")
    stages = list(_decoded(scope["path"]))
    found = {name for stage in stages for reading in _readings(stage) for name in _within(reading, root, paths)}
    if len(found) > 1:
        raise RefusedError(400, "the path can be read in more than one way")
    pieces = [piece for piece in _ODD.split(stages[-1].replace("\\", "/"))[1:] if piece.startswith("/")]
    if not found and any(True for piece in pieces for _ in _within(plain(piece), root, paths)):
        raise RefusedError(400, "the path holds characters that it must not")
    return next(iter(found), None)


def _decoded(path: str) -> Iterator[str]:
    """The path as it came, and after each decoding, until there is nothing left to decode."""
    yield path
    for _ in range(_MOST_DECODINGS):
        before, path = path, unquote(path)
        if path == before:
            return
        yield path
    if unquote(path) != path:
        raise RefusedError(400, "the path is encoded too many times")


def _readings(path: str) -> set[str]:
    """The ways to read a path without decoding it, each as `plain` gives it."""
    if not _ODD.search(path):
        return _with_and_without_authority(path)
    cut = re.split(r"[?#]", path, maxsplit=1)[0]
    ways = {path, cut, _PARAMETERS.sub("", path), _PARAMETERS.sub("", cut)}
    ways |= {way.replace("\\", "/") for way in ways}
    ways |= {_ODD.split(way, maxsplit=1)[0] for way in ways} | {_ODD.sub("", way) for way in ways}
    return {reading for way in ways for reading in _with_and_without_authority(way)}


def _with_and_without_authority(path: str) -> set[str]:
    """`//host/path` and `http://host/path` are `/path` for a client that joins them to the engine's address."""
    lowered = path.lower()
    authority = _AUTHORITY.match(lowered)
    return {plain(lowered)} | ({plain(lowered[authority.end() :])} if authority else set())


def _within(reading: str, root: str, paths: Collection[str]) -> Iterator[str]:
    """The path that this is, itself or below the `root_path` that the application is mounted at, which ASGI's `path`
    begins with."""
    if reading in paths:
        yield reading
    below = reading.removeprefix(root)
    if below != reading and below in paths:
        yield below
