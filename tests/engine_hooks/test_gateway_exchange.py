"""A request's body as it comes from the server, piece by piece."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from engine_hooks.gateway_exchange import ClientGoneError, Receive, read_body
from engine_hooks.gateway_request import RefusedError
from tests.engine_hooks.gateways import run


def sending(*messages: dict[str, Any]) -> Receive:
    waiting = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(waiting)

    return receive


def piece(body: bytes | None, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_pieces_are_one_body_and_a_piece_may_be_empty_or_none() -> None:
    pieces = [
        piece(b"a"),
        piece(None),
        piece(b""),
        {"type": "http.request", "more_body": True},
        piece(b"b", more=False),
    ]
    assert run(read_body(sending(*pieces), 2)) == b"ab"


def test_a_body_of_none_is_an_empty_body() -> None:
    assert run(read_body(sending(piece(None, more=False)), 2)) == b""


def test_a_body_that_grows_too_long_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        run(read_body(sending(piece(b"aa"), piece(b"b")), 2))
    assert caught.value.status == 413


def test_a_client_that_leaves_is_said_to_be_gone() -> None:
    with pytest.raises(ClientGoneError):
        run(read_body(sending(piece(b"a"), {"type": "http.disconnect"}), 2))


def test_any_number_of_empty_pieces_takes_no_memory() -> None:
    empty, last = piece(b""), piece(b"a", more=False)
    left = 100_000

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return empty if left else last

    async def most_memory() -> int:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert await read_body(receive, 10) == b"a"
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    assert run(most_memory()) < 100_000
