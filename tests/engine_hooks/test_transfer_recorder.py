"""What a transfer's two ends say beyond the first version of the contract: whole manifests, and how each part ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_hooks import conventions as c
from engine_hooks.recorder import Recorder
from tests.engine_hooks.support import a_leg, a_ring, facts_in, page_list
from tests.engine_hooks.test_recorder import DIGEST, Call, one_fact, said_by

RESERVED = {
    "transfer.side": "receive", "transfer.status": "reserved", "room": 7, "transfer.session": "s",
    "transfer.destination": DIGEST, "pages": page_list(4, 5), "page.count": 2, "prefix.tokens": 0,
    "prompt.tokens": 32,
}  # fmt: skip

CALLS: dict[str, tuple[Call, dict[str, object]]] = {
    "a reservation with its manifest": (
        lambda r, leg: r.transfer_reserved(
            leg, room=7, session="s", destination=DIGEST, pages=page_list(4, 5), prefix_tokens=0, prompt_tokens=32,
            slot=3, peers=2, page_bytes=65536, state_pages=9,
        ),
        {**RESERVED, "slot": 3, "peers": 2, "page.bytes": 65536, "state.pages": 9},
    ),
    "a reservation that one engine's fake prefill fills": (
        lambda r, leg: r.transfer_reserved(
            leg, room=7, session="s", destination=DIGEST, pages=page_list(4, 5), prefix_tokens=0, prompt_tokens=32,
            peers=0,
        ),
        {**RESERVED, "peers": 0},
    ),
    "a destination of several ranks": (
        lambda r, leg: r.transfer_destination(
            leg, room=7, session="s", destination=DIGEST, page_count=3, prefix_tokens=16, slot=0, peers=2, state_pages=1
        ),
        {"transfer.side": "send", "transfer.status": "destination", "room": 7, "transfer.session": "s",
         "transfer.destination": DIGEST, "page.count": 3, "prefix.tokens": 16, "slot": 0, "peers": 2,
         "state.pages": 1},
    ),
    "the last chunk": (
        lambda r, leg: r.transfer_queued(
            leg, pages=page_list(8), chunk_page=2, chunk_tokens=1, sender_pages=3, last=True, state_pages=4
        ),
        {"transfer.side": "send", "transfer.status": "queued", "pages": page_list(8), "page.count": 1,
         "chunk.page": 2, "chunk.tokens": 1, "sender.pages": 3, "chunk.last": True, "state.pages": 4},
    ),
    "a chunk that is not the last": (
        lambda r, leg: r.transfer_queued(
            leg, pages=page_list(8), chunk_page=0, chunk_tokens=16, sender_pages=3, last=False
        ),
        {"transfer.side": "send", "transfer.status": "queued", "pages": page_list(8), "page.count": 1,
         "chunk.page": 0, "chunk.tokens": 16, "sender.pages": 3, "chunk.last": False},
    ),
    "a rank says that its part landed": (
        lambda r, leg: r.transfer_concluded(leg, side="send", landed=True),
        {"transfer.side": "send", "transfer.status": "landed"},
    ),
    "decode is told which rank's part landed": (
        lambda r, leg: r.transfer_concluded(leg, side="receive", landed=True, peer_rank=0),
        {"transfer.side": "receive", "transfer.status": "landed", "peer.rank": 0},
    ),
    "a part failed": (
        lambda r, leg: r.transfer_concluded(leg, side="receive", landed=False, peer_rank=1, failure="peer_lost"),
        {"transfer.side": "receive", "transfer.status": "failed", "peer.rank": 1, "failure": "peer_lost"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call_records_what_it_was_given_and_nothing_else(name: str, tmp_path: Path) -> None:
    call, said = CALLS[name]

    assert said_by(one_fact(tmp_path, call)) == said


@pytest.mark.parametrize("name", CALLS)
def test_a_call_records_all_that_its_variant_requires(name: str, tmp_path: Path) -> None:
    fact = one_fact(tmp_path, CALLS[name][0])

    required = {one.attribute.name for one in c.TRANSFER.fields if one.is_required(str(fact.values[c.STATUS.name]))}
    assert required <= set(fact.values)


def test_a_failure_is_one_of_our_words_and_never_the_engines_message(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)

    assert not Recorder(ring).transfer_concluded(a_leg(), side="send", landed=False, failure="acme timed out")

    assert facts_in(ring) == []
