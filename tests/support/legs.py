"""Builders of legs for tests of single detection steps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from detectors.legs import Chunk, Leg

START = datetime(2026, 9, 1, tzinfo=UTC)


def leg(uid: str, **given: Any) -> Leg:
    """A leg of which nothing is known but what is given."""
    plain: dict[str, Any] = dict.fromkeys(Leg.__dataclass_fields__)
    plain |= dict.fromkeys(("tenant_key", "rid", "session", "destination", "finish", "end_state"), "")
    flags = ("contradicted", "receives", "sends", "sends_unseen", "admitted", "rejected", "committed", "refused")
    plain |= dict.fromkeys((*flags, "released"), False)
    plain |= {
        "uid": uid,
        "emitter": "host1/decode",
        "boot": "b0" * 16,
        "tenant": "aa" * 16,
        "traffic": "customer",
        "rooms": (),
        "heard": START,
        "started": START,
        "last_time": START,
        "first_seq": 1,
        "last_seq": 1,
        "ordinals": (1,),
        "chunks": (),
        "progress_seqs": (),
        "acquired_seen": 0,
        "releases": 0,
    }
    return Leg(**(plain | given))


def chunk(first_page: int, tokens: int, pages: int = 1, seq: int = 1) -> Chunk:
    """A queued chunk of so many pages."""
    return Chunk(first_page, tokens, tuple(range(100 + first_page, 100 + first_page + pages)), seq)
