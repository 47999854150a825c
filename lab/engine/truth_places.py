"""Whose bytes lie in which place: for pages that the engine hands from one request to another on purpose.

One text has one KV, whoever computed it: where two requests wrote equal bytes, only the place tells whose they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from lab.engine.truth_records import Read, Reuse, Write


@dataclass(frozen=True, slots=True)
class _Grant:
    """One slot that the engine gave a request for one of its first positions; `owner` is who put its bytes there."""

    slot: int
    digest: str
    owner: str


@dataclass(frozen=True, slots=True)
class Grants:
    """What one reader was given of others' work, by position: `decode` in place, `prefill` to be transferred."""

    decode: dict[int, _Grant]
    prefill: dict[int, _Grant]

    def in_place(self, position: int, slot: int, digest: str) -> str | None:
        """Owner of the bytes in this slot, if decode gave the reader just this slot with just these bytes."""
        grant = self.decode.get(position)
        return grant.owner if grant is not None and (grant.slot, grant.digest) == (slot, digest) else None

    def by_transfer(self, position: int, digest: str) -> str | None:
        """Owner of these bytes, if prefill had them for this position from somebody."""
        grant = self.prefill.get(position)
        return grant.owner if grant is not None and grant.digest == digest else None


class Places:
    """Who put which bytes into each slot, and when."""

    def __init__(self, writes: Iterable[Write]) -> None:
        self._put: dict[tuple[str, int], list[tuple[int, str, str]]] = defaultdict(list)
        for write in writes:
            for slot, digest in zip(write.slots, write.hashes, strict=True):
                self.put(write.role, slot, write.t, digest, write.rid)

    def put(self, role: str, slot: int, t: int, digest: str, owner: str) -> None:
        """At this time these bytes of this owner lay in this slot."""
        self._put[role, slot].append((t, digest, owner))

    def owner(self, role: str, slot: int, t: int, digest: str) -> str | None:
        """Whose bytes lay there at time t; None if it is not known that these did."""
        last = max((each for each in self._put.get((role, slot), ()) if each[0] < t), default=None)
        return last[2] if last is not None and last[1] == digest else None

    def grants(self, reuses: Iterable[Reuse], read: Read) -> Grants:
        """What the engine gave this reader before it read: the last word of each role."""
        last: dict[str, Reuse] = {each.role: each for each in reuses if each.rid == read.rid and each.t < read.t}
        return Grants(*(self._of(last.get(role)) for role in ("decode", "prefill")))

    def _of(self, reuse: Reuse | None) -> dict[int, _Grant]:
        if reuse is None:
            return {}
        found = {}
        for position, (slot, digest) in enumerate(zip(reuse.slots, reuse.hashes, strict=True)):
            owner = self.owner(reuse.role, slot, reuse.t, digest)
            if owner is not None:
                found[position] = _Grant(slot, digest, owner)
        return found
