"""One request and its answer as a gateway sees them: the body read, the answer passed through and watched.

Types are those of ASGI 3 (https://asgi.readthedocs.io/en/latest/specs/www.html).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from engine_hooks.gateway_request import RefusedError, too_long

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

RESPONSE_ID_HEADER = b"x-pagewitness-response-id"
SERVER_ERROR = 500
"""What an ASGI server answers for an application that raises, or returns, before it began an answer."""

_DISCONNECT = "http.disconnect"


class ClientGoneError(Exception):
    """The client went away before its whole request was there."""


async def read_body(receive: Receive, most_bytes: int) -> bytes:
    """The whole request body. Raises RefusedError where it is longer than allowed, ClientGoneError where it ends."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == _DISCONNECT:
            raise ClientGoneError
        body += message.get("body") or b""  # one buffer: a client may send any number of empty pieces
        if len(body) > most_bytes:
            raise too_long(most_bytes)
        if not message.get("more_body", False):
            return bytes(body)


class Replay:
    """`receive` for the application: our body first, then whatever the server says (that the client went away).

    That word is also waited for when the application does not ask: only so it is known that a client left while the
    engine worked. Under an event loop other than asyncio's it is not.
    """

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._next: asyncio.Future[Message] | None = None
        self._gone = False

    def watch(self) -> None:
        """Begin to wait for the server's word."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._next = asyncio.ensure_future(self._receive())
        self._next.add_done_callback(_take_note)

    @property
    def client_gone(self) -> bool:
        """Whether the server said that the client went away."""
        if not self._gone and self._next is not None and self._next.done() and not self._next.cancelled():
            self._gone = self._next.exception() is None and self._next.result()["type"] == _DISCONNECT
        return self._gone

    async def __call__(self) -> Message:
        """The application's `receive`."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._next is None:
            message = await self._receive()
            self._gone = self._gone or message["type"] == _DISCONNECT
            return message
        # Shielded: the application may stop waiting, e.g. when its stream is at its end; we do not.
        message = await asyncio.shield(self._next)
        if not self.client_gone:
            self.watch()
        return message

    def stop(self) -> None:
        """Wait no longer."""
        if self._next is not None:
            self._next.cancel()


def _take_note(task: asyncio.Future[Message]) -> None:
    """Read a failed task's exception: asyncio logs one that nobody reads. The application gets it too."""
    if not task.cancelled():
        task.exception()


class Answer:
    """`send` for the application: every message goes on at once, as it is, with our id among the headers."""

    def __init__(self, send: Send, response_id: str, replay: Replay) -> None:
        self._send = send
        self._header = (RESPONSE_ID_HEADER, response_id.encode("ascii"))
        self._replay = replay
        self._trailers = False
        self._complete = False
        self.status: int | None = None
        self._raised = self._cancelled = False

    async def __call__(self, message: Message) -> None:
        """The application's `send`."""
        kind = message["type"]
        if kind == "http.response.start":
            headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != RESPONSE_ID_HEADER]
            await self._send({**message, "headers": [*headers, self._header]})
            if not self._replay.client_gone:
                self.status = message["status"]
                self._trailers = message.get("trailers", False)
            return
        last = self._is_last(message, kind)
        gone = self._replay.client_gone
        await self._send(message)
        # Servers drop what is sent to a client that is gone without a word.
        self._complete = self._complete or (last and not gone)

    def _is_last(self, message: Message, kind: str) -> bool:
        if kind == "http.response.trailers":
            return not message.get("more_trailers", False)
        if kind in ("http.response.body", "http.response.zerocopysend"):
            return not (message.get("more_body", False) or self._trailers)
        return kind == "http.response.pathsend"

    def broke(self, error: BaseException) -> None:
        """The application ended with this instead of returning."""
        self._raised = isinstance(error, Exception)
        self._cancelled = not self._raised

    def outcome(self) -> tuple[str, int | None]:
        """How it ended for the client, as the contract says it, and the status that it got."""
        if self._complete:
            # Starlette answers an exception with a 500 of its own, and raises it on.
            return ("failed" if self._raised and self.status == SERVER_ERROR else "complete"), self.status
        if self.status is not None or self._replay.client_gone or self._cancelled:
            return "cut", self.status
        return "failed", SERVER_ERROR


async def refuse(send: Send, refusal: RefusedError) -> None:
    """Answer a request that cannot be read safely, in the form of OpenAI's errors."""
    # The message is one of ours and holds nothing of the client's.
    body = (
        b'{"error":{"message":"%s","type":"invalid_request_error","param":null,"code":"%d"}}'
        % (str(refusal).encode("ascii"), refusal.status)
    )  # fmt: skip
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
