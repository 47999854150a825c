"""Tokens of emitters: each is bound to a prefix, and may post for the emitters `<prefix>/<name>` only.

A token is `pw_<id>_<secret>`. The file `tokens.json` of the data directory holds ids, prefixes and digests of the
secrets. A secret has 256 random bits, so a plain digest of it cannot be guessed backwards.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

NAME = "tokens.json"
PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)*")
MAX_PREFIX = 128

_TOKEN = re.compile(r"pw_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


class TokenError(Exception):
    """A token cannot be made, found or read: what is wrong, and with what."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token. `id` is no secret; `digest` is the SHA-256 of its secret, in hex."""

    id: str
    prefix: str
    digest: str
    created: str

    def covers(self, emitter: str) -> bool:
        """Whether it may post for this emitter."""
        return emitter.startswith(f"{self.prefix}/")


class TokenFile:
    """Says whose a token is. Reads the file again when it has changed: a new or revoked token counts at once."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME
        self._seen: tuple[int, int, int] | None = None
        self._tokens: Mapping[str, Token] = {}

    def identify(self, text: str) -> Token | None:
        """The token that this text is, or None. Raises TokenError for a file that cannot be read."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        token = self._current().get(match["id"])
        if token is None or not hmac.compare_digest(token.digest, _digest(match["secret"])):
            return None
        return token

    def _current(self) -> Mapping[str, Token]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._seen, self._tokens = None, {}
            return self._tokens
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._tokens, self._seen = _read(self._path), seen
        return self._tokens


def mint_token(data_dir: Path, prefix: str) -> str:
    """Make a token for the emitters `<prefix>/...`, and return it: it is kept nowhere. Raises TokenError."""
    if not PREFIX.fullmatch(prefix) or len(prefix) > MAX_PREFIX:
        raise TokenError(
            f"{prefix!r} cannot be a prefix: letters, digits and . _ : - in parts separated by /, at most {MAX_PREFIX}"
        )
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with _changing(data_dir) as tokens:
        tokens[token_id] = Token(token_id, prefix, _digest(secret), created)
    return f"pw_{token_id}_{secret}"


def revoke_token(data_dir: Path, token_id: str) -> Token:
    """Forget a token, and return what it was. Raises TokenError if there is none with this id."""
    with _changing(data_dir) as tokens:
        if token_id not in tokens:
            raise TokenError(f"there is no token {token_id!r} in {data_dir / NAME}")
        return tokens.pop(token_id)


def list_tokens(data_dir: Path) -> list[Token]:
    """Every token, the oldest first. Raises TokenError for a file that cannot be read."""
    path = data_dir / NAME
    return sorted(_read(path).values(), key=lambda token: (token.created, token.id)) if path.exists() else []


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _read(path: Path) -> dict[str, Token]:
    try:
        return {entry["id"]: Token(**entry) for entry in json.loads(path.read_bytes())["tokens"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TokenError(
            f"cannot read {path} ({type(error).__name__}): restore it, or delete it and mint new tokens"
        ) from error


@contextmanager
def _changing(data_dir: Path) -> Iterator[dict[str, Token]]:
    """The tokens, to be changed: written when the block ends without an error, by one process at a time."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = data_dir / NAME
    lock = os.open(data_dir / f"{NAME}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tokens = _read(path) if path.exists() else {}
        yield tokens
        _write(path, {"tokens": [asdict(token) for token in tokens.values()]})
    finally:
        os.close(lock)


def _write(path: Path, content: object) -> None:
    """Replace the file at once, readable by its owner only, and on the disk."""
    draft = path.with_name(f"{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
