"""A provider's gateway in front of a lab pair, as small as one can be: keys of customers, the middleware, both legs.

    python -m lab.engine.gateway_app SOCKET

serves on a unix socket, inside the pair's network namespace, with the settings of the environment. It plays the router
too: each request goes to prefill and decode with a room of its own, and decode's answer is the client's.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from engine_hooks.gateway import Tenant, TenantGateway
from lab.engine.servers import BOOTSTRAP_PORT, DECODE_PORT, HOST, PREFILL_PORT
from lab.engine.tenants import TENANTS

PATHS = ("/generate", "/v1/completions", "/v1/chat/completions", "/v1/responses")
INTERNAL_KEY = "key-of-the-provider"
_TIMEOUT_SECONDS = 60.0


def key_of(name: str) -> str:
    """The API key of a lab customer."""
    return f"key-of-{name}"


CUSTOMERS = {key_of(tenant.name): Tenant(tenant.name) for tenant in TENANTS} | {
    INTERNAL_KEY: Tenant("provider", "internal")
}


class Authentication:
    """The gateway's own: it knows customers by their API key, and turns everybody else away."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] == "http":
            presented = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            customer = CUSTOMERS.get(presented.removeprefix("Bearer "))
            if customer is None:
                await JSONResponse({"error": {"message": "unknown key"}}, status_code=401)(scope, receive, send)
                return
            scope.setdefault("state", {})["customer"] = customer
        await self._app(scope, receive, send)


def identify(scope: Any) -> Tenant:
    """Whose the request is: what the authentication found."""
    customer: Tenant = scope["state"]["customer"]
    return customer


def create_app() -> FastAPI:
    """The gateway, with its middleware from the inside out."""
    client = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = FastAPI(lifespan=lifespan)

    async def forward(request: Request) -> Response:
        body = await request.json() | {
            "bootstrap_host": HOST,
            "bootstrap_port": BOOTSTRAP_PORT,
            "bootstrap_room": secrets.randbits(63),
        }
        return await _both_legs(client, request.url.path, body)

    for path in PATHS:
        app.post(path, response_model=None)(forward)
    app.add_middleware(TenantGateway, identify=identify)
    app.add_middleware(Authentication)
    return app


async def _both_legs(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> Response:
    prefill = asyncio.create_task(client.post(f"http://{HOST}:{PREFILL_PORT}{path}", json=body))
    request = client.build_request("POST", f"http://{HOST}:{DECODE_PORT}{path}", json=body)
    try:
        answer = await client.send(request, stream=True)
    except httpx.HTTPError:
        prefill.cancel()
        raise

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in answer.aiter_raw():
                yield piece
            await asyncio.wait([prefill])
        finally:  # where the client is gone, too: the engine then ends the request
            prefill.cancel()
            await answer.aclose()

    kind = answer.headers.get("content-type")
    if body.get("stream"):
        return StreamingResponse(pieces(), status_code=answer.status_code, media_type=kind)
    return Response(b"".join([piece async for piece in pieces()]), status_code=answer.status_code, media_type=kind)


if __name__ == "__main__":
    uvicorn.run(create_app(), uds=sys.argv[1], log_level="warning")
