"""The real receiver for tests: its FastAPI application, served by uvicorn on a free port of the loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx
import uvicorn
from fastapi import APIRouter, FastAPI

from collector.tokens import mint_token

PROTOBUF = "application/x-protobuf"
START_SECONDS = 20.0


@cache
def _client() -> httpx.Client:
    """One for all: to make one takes longer than a request."""
    return httpx.Client(timeout=60.0, trust_env=False)


@dataclass(frozen=True)
class Sender:
    """Posts export requests as an emitter's agent does."""

    url: str
    token: str

    def post(self, body: bytes | Iterable[bytes], headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Post a body as it is, with the token; `headers` add to the usual ones or replace them."""
        usual = {"Content-Type": PROTOBUF, "Authorization": f"Bearer {self.token}"}
        return _client().post(self.url, content=body, headers={**usual, **(headers or {})})


@contextmanager
def served(router: APIRouter) -> Iterator[str]:
    """Serve this router, and give the URL of its /v1/traces. At the end it drains and stops."""
    app = FastAPI()
    app.include_router(router)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=10))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="receiver")
    thread.start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while not server.started:
            assert thread.is_alive(), "the receiver ended while it started"
            assert time.monotonic() < deadline, "the receiver did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/traces"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def sender(url: str, data_dir: Path, prefix: str = "host1") -> Sender:
    """A sender with a new token for this prefix."""
    return Sender(url, mint_token(data_dir, prefix))
