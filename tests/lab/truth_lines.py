"""Builds what the truth plugin writes down: two processes, pages of four slots, and time that goes on with each line.

Bytes are words: a slot "holds" the word that stands for its hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.engine.traffic import room_of
from lab.engine.truth_records import Records, collect

PAGE = 4
UNTOUCHED = "untouched"


class Script:
    """Lines in the order in which they are called for."""

    def __init__(self, ranks: int = 1) -> None:
        self.lines: list[dict[str, Any]] = []
        for self.rank in reversed(range(ranks)):  # what follows is rank 0's, unless `rank` is set
            for role, slots in (("prefill", 16), ("decode", 32)):
                self.add("start", role, version="0", page_size=PAGE, slots=slots, untouched=UNTOUCHED)

    def add(self, kind: str, role: str, **fields: Any) -> Script:
        """One line of this role, later than the last."""
        self.lines.append({"kind": kind, "role": role, "rank": self.rank, "t": len(self.lines) + 1, **fields})
        return self

    def prefill_writes(self, rid: str, words: Sequence[str], start: int = 0) -> Script:
        """A forward on prefill wrote these words, from position `start` on; where does not matter to the truth."""
        return self.add("write", "prefill", rid=rid, start=start, slots=list(range(len(words))), hashes=list(words))

    def decode_writes(self, rid: str, position: int, slot: int, word: str) -> Script:
        """A decode step wrote one word."""
        return self.add("write", "decode", rid=rid, start=position, slots=[slot], hashes=[word])

    def prefill_reuses(self, rid: str, held: dict[int, str]) -> Script:
        """Prefill gave a request these slots of its prefix cache, which hold these words."""
        return self.add("reuse", "prefill", rid=rid, slots=list(held), hashes=list(held.values()))

    def decode_reuses(self, rid: str, held: dict[int, str]) -> Script:
        """Decode did."""
        return self.add("reuse", "decode", rid=rid, slots=list(held), hashes=list(held.values()))

    def reserves(self, rid: str, held: dict[int, str]) -> Script:
        """Decode is about to publish slots that hold these words."""
        return self.add("snapshot", "decode", room=room_of(rid), slots=list(held), hashes=list(held.values()))

    def reads(self, rid: str, held: dict[int, str]) -> Script:
        """Decode is about to read slots that hold these words, in order of position."""
        return self.add("read", "decode", rid=rid, room=room_of(rid), slots=list(held), hashes=list(held.values()))

    def ends(self, rid: str, held: dict[int, str]) -> Script:
        """The slots of a request after its last step."""
        return self.add("last", "decode", rid=rid, slots=list(held), hashes=list(held.values()))

    def records(self) -> Records:
        """What these lines say."""
        return collect(self.lines)
