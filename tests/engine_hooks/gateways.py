"""A gateway as a provider writes it: FastAPI, the middleware, and an engine behind it that keeps what reaches it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from engine_hooks.facts import Fact
from engine_hooks.gateway import Identify, Tenant, TenantGateway
from engine_hooks.gateway_exchange import Scope
from engine_hooks.identity import EvidenceKey, Key, pseudonym
from engine_hooks.settings import Settings, load
from tests.engine_hooks.support import facts_in

PSEUDONYMS = Key("p1", b"p" * 32)
MAC = Key("m1", b"m" * 32)
EVIDENCE = EvidenceKey(Key("e1", b"e" * 32))
HEADER = "x-pagewitness-response-id"
ACME = pseudonym(PSEUDONYMS, "acme")

T = TypeVar("T")


def settings(rings: Path, **changed: str) -> Settings:
    """A gateway's settings with one key of each kind; `changed` by variable, without PAGEWITNESS_ ('' = not set)."""
    values = {
        "RING_DIR": str(rings),
        "RING_BYTES": "64K",
        "EMITTER": "edge1",
        "PSEUDONYM_KEYS": f"p1:{PSEUDONYMS.secret.hex()}",
        "MAC_KEYS": f"m1:{MAC.secret.hex()}",
        "EVIDENCE_KEY": f"e1:{(b'e' * 32).hex()}",
    } | changed
    return load({f"PAGEWITNESS_{name}": value for name, value in values.items()}, scope="gateway")


def acme(scope: Scope) -> Tenant:
    return Tenant("acme")


class Engine:
    """What the engine behind the gateway got: every body as it came, and headers."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    @property
    def fields(self) -> dict[str, Any]:
        """The last body."""
        found = json.loads(self.bodies[-1])
        assert isinstance(found, dict)
        return found


def application(engine: Engine) -> FastAPI:
    """The gateway without the middleware. Its engine answers at once, or as the body's `do` says."""
    app = FastAPI()

    async def answer(request: Request) -> Any:
        body = await request.body()
        engine.bodies.append(body)
        engine.headers.append(dict(request.headers))
        match (await request.json()).get("do"):
            case "stream":
                return StreamingResponse(stream(), media_type="text/event-stream", headers={HEADER: "forged"})
            case "break off":
                return StreamingResponse(stream(breaks=True), media_type="text/event-stream")
            case "raise":
                raise RuntimeError("no upstream")
            case "turn away":
                return JSONResponse({"error": "busy"}, status_code=503)
        return {"id": "from the engine", "scope": request.scope.get("pagewitness")}

    for path in ("/generate", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/other"):
        app.api_route(path, methods=["POST", "PUT"], response_model=None)(answer)
    return app


async def stream(*, breaks: bool = False) -> AsyncIterator[bytes]:
    for number in range(3):
        yield f"data: {number}\n\n".encode()
    if breaks:
        raise RuntimeError("the upstream went away")
    yield b"data: [DONE]\n\n"


class Gateway:
    """The middleware around an application, asked through httpx without a network."""

    def __init__(self, rings: Path, identify: Identify = acme, known: Settings | None = None, **options: Any) -> None:
        self.rings = rings
        self.engine = Engine()
        self.app = TenantGateway(
            application(self.engine), identify=identify, settings=known or settings(rings), **options
        )

    def post(self, path: str = "/generate", **request: Any) -> httpx.Response:
        return self.ask("POST", path, **request)

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await client.request(method, path, **request)

        return run(send())

    @property
    def facts(self) -> list[Fact]:
        return deliveries(self.rings)

    @property
    def fact(self) -> dict[str, Any]:
        """The values of the one delivery that was recorded, by their names without `pagewitness.`."""
        (fact,) = self.facts
        return values(fact)


def deliveries(rings: Path) -> list[Fact]:
    return [fact for ring in sorted(rings.glob("*.ring")) for fact in facts_in(ring)]


def values(fact: Fact) -> dict[str, Any]:
    return {name.removeprefix("pagewitness."): value for name, value in fact.values.items()}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve this application on a free port of the loopback, and give its URL."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=10))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="gateway")
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert thread.is_alive(), "the gateway ended while it started"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
