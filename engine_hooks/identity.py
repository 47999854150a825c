"""Who a request belongs to, and the keyed digests that stand in for what clients choose.

The gateway knows the tenant by name. It overwrites the request's ``cache_salt`` with :func:`mint_salt`; the hooks on
the engine nodes check it with :func:`verify_salt` and learn a pseudonym, never a name. Three keys keep three powers
apart: the pseudonym key (gateway and responders) turns names into pseudonyms, the MAC key (gateway and engines) vouches
for a salt, the evidence key (gateway, engines and responders) digests request ids, rooms and page lists.

All digests are keyed BLAKE2b with a `person` tag each, so that equal inputs of two kinds never give equal digests.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from engine_hooks.conventions import TRAFFIC

SALT_VERSION = "1"
DIGEST_BYTES = 16
MIN_SECRET_BYTES = 16
MAX_SECRET_BYTES = 64  # what BLAKE2b takes as a key
NO_TENANT = bytes(DIGEST_BYTES)
"""Stands for "nobody vouched for this request" wherever a tenant is 16 bytes."""

_KEY_ID = re.compile(r"[a-z0-9-]{1,8}\Z")
_SALT = re.compile(r"1\.([a-z0-9-]{1,8})\.([0-9a-f]{32})\.([a-z]{1,16})\.([0-9a-f]{32})\Z")
_MAX_SALT = 128
_ROOM_BITS = (1 << 63) - 1


class KeyFormatError(ValueError):
    """A key setting cannot be used. The message names the key's position and id, never its secret."""


@dataclass(frozen=True, slots=True)
class Key:
    """A secret (16 to 64 bytes) with the id that is stored beside everything made with it."""

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.match(self.id):
            raise KeyFormatError(f"key id {self.id[:20]!r} is not 1 to 8 characters of a-z, 0-9 and '-'")
        if not MIN_SECRET_BYTES <= len(self.secret) <= MAX_SECRET_BYTES:
            raise KeyFormatError(
                f"key {self.id!r} has a secret of {len(self.secret)} bytes; "
                f"use {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} (e.g. `openssl rand -hex 32`)"
            )


@dataclass(frozen=True, slots=True)
class Identity:
    """What a verified salt says: pseudonym (16 bytes), id of the key that made it, and a traffic label."""

    tenant: bytes
    key_id: str
    traffic: str


def parse_keys(text: str) -> tuple[Key, ...]:
    """Parse ``id:hex,id:hex`` (newest first; spaces around items are allowed; empty text is no keys).

    Raises KeyFormatError for a bad id, bad hex, a secret of the wrong size or an id that occurs twice.
    """
    keys: list[Key] = []
    for position, item in enumerate((part.strip() for part in text.split(",")), start=1):
        if not item:
            if text.strip():
                raise KeyFormatError(f"key {position} is empty; write id:hex,id:hex")
            continue
        key_id, separator, secret = item.partition(":")
        if not separator:
            raise KeyFormatError(f"key {position} has no ':' between its id and its secret; write id:hex")
        try:
            key = Key(key_id, bytes.fromhex(secret))
        except KeyFormatError:
            raise
        except ValueError:
            raise KeyFormatError(
                f"key {position} ({key_id[:8]!r}): the secret is not hexadecimal; make one with: openssl rand -hex 32"
            ) from None
        if any(known.id == key.id for known in keys):
            raise KeyFormatError(f"key id {key.id!r} occurs twice; each key needs its own id")
        keys.append(key)
    return tuple(keys)


def pseudonym(key: Key, tenant_name: str) -> str:
    """The tenant's name on the wire: 32 hex digits. The name counts code point by code point (no normalisation,
    so that two names that a customer system tells apart never become one). Raises ValueError for an empty name.
    """
    if not tenant_name:
        raise ValueError("a tenant name is empty; leave the salt out for a request that belongs to nobody")
    return _digest(key.secret, b"pw.tenant", _utf8(tenant_name)).hex()


def mint_salt(tenant_name: str, *, pseudonym_key: Key, mac_key: Key, traffic: str = "customer") -> str:
    """The ``cache_salt`` a gateway sets: ``1.<pseudonym key id>.<pseudonym>.<traffic>.<mac>``, ASCII.

    Raises ValueError for an empty name or an unknown traffic label.
    """
    if traffic not in TRAFFIC.choices:
        raise ValueError(f"traffic {traffic!r} is not one of {', '.join(TRAFFIC.choices)}")
    claim = f"{SALT_VERSION}.{pseudonym_key.id}.{pseudonym(pseudonym_key, tenant_name)}.{traffic}"
    return f"{claim}.{_mac(mac_key, claim)}"


def verify_salt(salt: object, mac_keys: Iterable[Key]) -> Identity | None:
    """Who the salt says the request belongs to, or None if no key of ours vouches for every byte of it.

    Takes whatever a client sent (None, any type, any length) and never raises. A salt holds under any of the keys,
    so that a MAC key can be rotated by listing the new one beside the old one.
    """
    if not isinstance(salt, str) or len(salt) > _MAX_SALT:
        return None
    match = _SALT.match(salt)
    if match is None:
        return None
    key_id, tenant, traffic, mac = match.groups()
    claim = salt[: match.end(3)]
    vouched = False
    for key in mac_keys:  # every key is tried, so that the time says nothing about which one fits
        vouched |= hmac.compare_digest(_mac(key, claim), mac)
    if not vouched or traffic not in TRAFFIC.choices or tenant == NO_TENANT.hex():
        return None
    return Identity(bytes.fromhex(tenant), key_id, traffic)


class Salts:
    """`verify_salt` under these keys, with a memory: a salt that was vouched for comes again with every request of its
    tenant, and is not worked out anew. No client can fill it: what nobody vouches for is never remembered.
    """

    def __init__(self, mac_keys: Iterable[Key], most: int = 4096) -> None:
        self._mac_keys = tuple(mac_keys)
        self._most = most
        self._vouched: dict[str, Identity] = {}

    def identity(self, salt: object) -> Identity | None:
        """Who the salt says the request belongs to; see `verify_salt`."""
        if not isinstance(salt, str):
            return None
        known = self._vouched.get(salt)
        if known is None:
            known = verify_salt(salt, self._mac_keys)
            if known is not None:
                if len(self._vouched) >= self._most:
                    self._vouched.clear()
                self._vouched[salt] = known
        return known


class EvidenceKey:
    """Digests of what clients choose (request ids, rooms) and of page lists, keyed so that they cannot be guessed."""

    __slots__ = ("_namespace", "_pages", "_rid", "_room", "_uid", "id")

    def __init__(self, key: Key) -> None:
        self.id = key.id
        self._rid = _hasher(key.secret, b"pw.rid")
        self._room = _hasher(key.secret, b"pw.room")
        self._pages = _hasher(key.secret, b"pw.pages")
        self._uid = _hasher(key.secret, b"pw.uid")
        self._namespace = _hasher(key.secret, b"pw.namespace")

    def rid(self, rid: str) -> bytes:
        """Digest (16 bytes) of the request id that the engine used."""
        state = self._rid.copy()
        state.update(_utf8(rid))
        return state.digest()

    def room(self, room: int | str | None) -> int:
        """Digest of a bootstrap room in 1..2^63-1; 0 means that there is no room. ``5`` and ``"5"`` are one room."""
        if room is None:
            return 0
        state = self._room.copy()
        state.update(_utf8(str(room)))
        return (int.from_bytes(state.digest()[:8], "little") & _ROOM_BITS) or 1

    def pages(self, pages: bytes | bytearray | memoryview) -> bytes:
        """Digest (16 bytes) of page ids given as int32 little-endian bytes, in order."""
        state = self._pages.copy()
        state.update(pages)
        return state.digest()

    def namespace(self, *parts: str | None) -> bytes | None:
        """Digest (16 bytes) of what keeps prefix-cache entries apart, in this order; None if no part says anything."""
        if not any(parts):
            return None
        state = self._namespace.copy()
        for part in parts:
            text = _utf8(part or "")
            state.update(len(text).to_bytes(4, "little"))
            state.update(text)
        return state.digest()

    def uid(self, node_boot: bytes, rid: str, room: int | str | None, occurrence: int) -> bytes:
        """The leg's uid (16 bytes). Every rank of a node comes to the same one without talking to the others.

        `node_boot` is the 16 bytes drawn by the node's parent process; `occurrence` counts legs of the same
        (rid, room) in this boot, from 0: a client that repeats both does not get one leg for two.
        """
        parts = (node_boot, _utf8(rid), b"" if room is None else _utf8(str(room)))
        state = self._uid.copy()
        for part in parts:  # lengths first: no two inputs share one byte string
            state.update(len(part).to_bytes(4, "little"))
            state.update(part)
        state.update(occurrence.to_bytes(8, "little", signed=True))
        return state.digest()


def _utf8(text: str) -> bytes:
    # Client strings can hold lone surrogates; they must not raise and must not collide with other strings.
    return text.encode("utf-8", "surrogatepass")


def _hasher(secret: bytes, person: bytes) -> blake2b:
    return blake2b(digest_size=DIGEST_BYTES, key=secret, person=person)


def _digest(secret: bytes, person: bytes, message: bytes) -> bytes:
    return blake2b(message, digest_size=DIGEST_BYTES, key=secret, person=person).digest()


def _mac(key: Key, claim: str) -> str:
    return _digest(key.secret, b"pw.salt", claim.encode("ascii")).hex()
