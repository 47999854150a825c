"""The middleware under a real server: streams, clients that go away, bodies in pieces, worker processes."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from engine_hooks.gateway import TenantGateway
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.gateways import (
    HEADER,
    Engine,
    acme,
    application,
    deliveries,
    served,
    settings,
    until,
    values,
)
from tests.repo.tree import ROOT


class Slow:
    """A gateway whose engine sends one piece, then waits until it is let go. `at_work`: a request has come that far."""

    def __init__(self) -> None:
        self.at_work = threading.Event()
        self.go = threading.Event()
        self.app = FastAPI()
        self.app.post("/generate", response_model=None)(self.answer)

    async def answer(self, request: Request) -> Any:
        if (await request.json()).get("stream"):
            return StreamingResponse(self.stream(), media_type="text/event-stream")
        await self.wait()
        return {"text": "late"}

    async def stream(self) -> AsyncIterator[bytes]:
        yield b"data: first\n\n"
        await self.wait()
        yield b"data: [DONE]\n\n"

    async def wait(self) -> None:
        self.at_work.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)


@pytest.fixture
def slow() -> Iterator[Slow]:
    engine = Slow()
    yield engine
    engine.go.set()


def guarded(app: Any, rings: Path) -> TenantGateway:
    return TenantGateway(app, identify=acme, settings=settings(rings))


def states(rings: Path) -> list[tuple[str, int | None]]:
    facts = map(values, deliveries(rings))
    return [(fact["delivery.state"], fact.get("http.response.status_code")) for fact in facts]


def test_a_stream_passes_piece_by_piece(slow: Slow, tmp_path: Path) -> None:
    with (
        served(guarded(slow.app, tmp_path)) as url,
        httpx.stream("POST", f"{url}/generate", json={"stream": True}) as r,
    ):
        pieces = r.iter_raw()
        assert next(pieces) == b"data: first\n\n"  # while the engine has not gone on
        assert states(tmp_path) == []
        slow.go.set()
        assert b"".join(pieces) == b"data: [DONE]\n\n"
        assert r.headers[HEADER]
    assert states(tmp_path) == [("complete", 200)]


def test_it_bears_middleware_around_it_that_wraps_streams(tmp_path: Path) -> None:
    app = application(Engine())
    app.add_middleware(TenantGateway, identify=acme, settings=settings(tmp_path))

    @app.middleware("http")
    async def around(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    with served(app) as url:
        answers = [httpx.post(f"{url}/generate", json={"do": do}) for do in ("stream", "at once")]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].text.endswith("data: [DONE]\n\n")
    assert states(tmp_path) == [("complete", 200)] * 2


def test_a_client_that_leaves_in_the_middle_of_a_stream_got_a_part(slow: Slow, tmp_path: Path) -> None:
    with served(guarded(slow.app, tmp_path)) as url:
        with httpx.stream("POST", f"{url}/generate", json={"stream": True}) as answer:
            next(answer.iter_raw())
        until(lambda: states(tmp_path) == [("cut", 200)])


def test_a_client_that_leaves_while_the_engine_works_got_nothing(slow: Slow, tmp_path: Path) -> None:
    with served(guarded(slow.app, tmp_path)) as url:
        with pytest.raises(httpx.ReadTimeout), httpx.Client(timeout=httpx.Timeout(20, read=0.2)) as client:
            client.post(f"{url}/generate", json={"text": "x"})
        slow.at_work.wait()
        # The server learns of it in its own time; only then may the engine go on.
        with httpx.Client() as other:
            assert other.get(f"{url}/nothing").status_code == 404
        slow.go.set()
        until(lambda: states(tmp_path) == [("cut", None)])


def test_a_client_that_leaves_before_its_request_is_there_leaves_nothing(tmp_path: Path) -> None:
    engine = Engine()
    with served(guarded(application(engine), tmp_path)) as url:
        with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as connection:
            connection.sendall(b'POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"text": "x"')
        assert httpx.post(f"{url}/generate", json={"text": "y"}).status_code == 200
    assert [b'"y"' in body for body in engine.bodies] == [True]
    assert states(tmp_path) == [("complete", 200)]


def test_a_body_in_pieces_arrives_whole(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"text": "one ", "cache'
        yield b'_salt": "stolen", "more'
        yield b'": "two"}'

    engine = Engine()
    with served(guarded(application(engine), tmp_path)) as url:
        assert httpx.post(f"{url}/generate", content=pieces()).status_code == 200
    assert (engine.fields["text"], engine.fields["more"]) == ("one ", "two")
    assert engine.fields["cache_salt"] != "stolen"
    assert "transfer-encoding" not in engine.headers[-1]


def test_a_body_in_pieces_that_is_too_long_is_refused_on_the_way(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    engine = Engine()
    app = TenantGateway(application(engine), identify=acme, settings=settings(tmp_path), body_bytes=1000)
    with served(app) as url:
        assert httpx.post(f"{url}/generate", content=pieces()).status_code == 413
    assert engine.bodies == []


def test_a_compressed_body_is_refused(tmp_path: Path) -> None:
    engine = Engine()
    body = gzip.compress(b'{"text": "x", "cache_salt": "stolen"}')
    with served(guarded(application(engine), tmp_path)) as url:
        answer = httpx.post(f"{url}/generate", content=body, headers={"content-encoding": "gzip"})
    assert answer.status_code == 415
    assert engine.bodies == []


@pytest.mark.parametrize(("do", "state"), [("raise", ("failed", 500)), ("break off", ("cut", 200))])
@pytest.mark.parametrize("outermost", [True, False])
def test_an_application_that_raises_leaves_what_the_client_got(
    tmp_path: Path, do: str, state: tuple[str, int], outermost: bool
) -> None:
    app: Any = application(Engine())
    if outermost:
        app = guarded(app, tmp_path)
    else:
        app.add_middleware(TenantGateway, identify=acme, settings=settings(tmp_path))
    with served(app) as url:
        try:
            status = httpx.post(f"{url}/generate", json={"do": do}).status_code
        except httpx.RemoteProtocolError:  # broken off
            status = 200
    assert status == state[1]
    assert states(tmp_path) == [state]


def test_a_server_that_stops_in_good_order_closes_the_ring(tmp_path: Path) -> None:
    with served(guarded(application(Engine()), tmp_path)) as url:
        httpx.post(f"{url}/generate", json={"text": "x"})
    (ring,) = tmp_path.glob("*.ring")
    reader = RingReader.open(ring)
    assert reader.closed
    reader.close()


FORKING = """
import asyncio, os, sys
from pathlib import Path
import httpx
from tests.engine_hooks.gateways import Engine, acme, application, settings
from engine_hooks.gateway import TenantGateway

async def post():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        await client.post("/generate", json={"text": "x"})

app = TenantGateway(application(Engine()), identify=acme, settings=settings(Path(sys.argv[1])))
asyncio.run(post())
child = os.fork()
if not child:
    asyncio.run(post())
    asyncio.run(post())
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_worker_records_into_a_ring_of_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], check=True, env=environment, cwd=ROOT)
    rings = sorted(tmp_path.glob("*.ring"))
    emitters = {ring.name.rsplit("-", 1)[0] for ring in rings}
    assert len(rings) == len(emitters) == 2
    closed = []
    for ring in rings:
        reader = RingReader.open(ring)
        closed.append(reader.closed)
        reader.close()
    assert sorted(closed) == [False, True]  # the parent ended in good order, the worker did not
    assert states(tmp_path) == [("complete", 200)] * 3
