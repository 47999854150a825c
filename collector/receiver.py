"""OTLP/HTTP in: POST /v1/traces, protobuf, from emitters that have a token. 200 means durably stored.

The steps, and what a request ends with that does not pass one: a token (401); content type and encoding (415); room for
one more (429); a body within bounds (413) that arrives (503); protobuf whose resources name an emitter and a boot (400)
of a contract that is known here (503); a token for that emitter, the one that claimed the boot (403); the store (400 if
it cannot read it, 503 if it cannot write). Bad spans in a good request are counted and said, and the rest is stored.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from http import HTTPStatus

import structlog
from fastapi import APIRouter, Request, Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from collector.body import (
    BadGzipError,
    BodyTooLargeError,
    BodyTooSlowError,
    check_announced,
    drain,
    gunzip,
    read_body,
)
from collector.export_request import BadRequestError, NewerContractError, TooManyError, read_export
from collector.log.contract import EvidenceLog
from collector.log.direct import DirectLog
from collector.refusals import PROTOBUF, Refusal
from collector.settings import ReceiverSettings
from collector.store import BodyRefusedError, Receipt, Store, StoreFailedError
from collector.store.claims import Claims
from collector.tokens import Token, TokenError, TokenFile
from engine_hooks.clock_offset import TIME_HEADER

_SOON, _LATER = 1, 60
"""Seconds after which a refused sender may come again: when there is room, or when somebody has acted."""


def create_receiver(
    store: Store, tokens: TokenFile, settings: ReceiverSettings | None = None, log: EvidenceLog | None = None
) -> APIRouter:
    """The router with POST /v1/traces. Claims are kept in `store`; evidence goes to `log`, by default `store` too."""
    receiver = _Receiver(log or DirectLog(store), store.claims, tokens, settings or ReceiverSettings())
    router = APIRouter()
    router.add_api_route("/v1/traces", receiver.post, methods=["POST"], include_in_schema=False)
    return router


class _Receiver:
    def __init__(self, log: EvidenceLog, claims: Claims, tokens: TokenFile, settings: ReceiverSettings) -> None:
        self._log = log
        self._claims = claims
        self._tokens = tokens
        self._settings = settings
        self._under_way = 0
        self._say = structlog.get_logger("receiver")

    async def post(self, request: Request) -> Response:
        """Answer one export request, and say what time it is here: from that, agents know how their clocks stand."""
        response = await self._answer(request)
        response.headers[TIME_HEADER] = str(time.time_ns())
        return response

    async def _answer(self, request: Request) -> Response:
        chunks = request.stream()
        try:
            receipt = await self._take(request, chunks)
        except Refusal as refusal:
            self._say.warning("refused", status=int(refusal.status), reason=refusal.message)
            await _let_pass(request, chunks)
            return Response(refusal.body, refusal.status, refusal.headers, PROTOBUF)
        except ClientDisconnect:
            self._say.info("sender gone", reason="it hung up before its request was complete")
            return Response(status_code=HTTPStatus.BAD_REQUEST)  # nobody reads it
        answer = ExportTraceServiceResponse()
        if receipt.rejects:
            answer.partial_success.rejected_spans = receipt.rejected
            answer.partial_success.error_message = str(receipt)
            self._say.warning("rejects", stored=receipt.stored, rejects=dict(receipt.rejects))
        return Response(answer.SerializeToString(), HTTPStatus.OK, media_type=PROTOBUF)

    async def _take(self, request: Request, chunks: AsyncIterator[bytes]) -> Receipt:
        token = self._authenticate(request)
        gzipped = _check_headers(request)
        if self._under_way >= self._settings.receive_max_requests:
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, f"{self._under_way} requests are under way: come again", _SOON)
        self._under_way += 1
        try:
            body = await self._read(request, chunks)
            return await run_in_threadpool(self._store, token, body, gzipped)
        finally:
            self._under_way -= 1

    def _authenticate(self, request: Request) -> Token:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "no token: send `Authorization: Bearer <token>` of an emitter token")
        try:
            token = self._tokens.identify(text.strip())
        except TokenError as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "tokens cannot be read just now", _LATER) from error
        if token is None:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "this token is not known here, or was revoked")
        return token

    async def _read(self, request: Request, chunks: AsyncIterator[bytes]) -> bytes:
        limit = self._settings.receive_max_bytes
        try:
            check_announced(request.headers.get("Content-Length"), limit)
            return await read_body(chunks, limit, self._settings.receive_timeout_seconds)
        except BodyTooLargeError as error:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
        except BodyTooSlowError as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), _SOON) from error

    def _store(self, token: Token, body: bytes, gzipped: bool) -> Receipt:
        """All that takes time, on a thread: unpack, read, check who speaks, store."""
        try:
            plain = gunzip(body, self._settings.receive_max_inflated_bytes) if gzipped else body
            export = read_export(plain, self._settings.receive_max_spans)
        except (BodyTooLargeError, TooManyError) as error:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
        except (BadGzipError, BadRequestError) as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from error
        except NewerContractError as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error), _LATER) from error
        try:
            self._check_sources(token, export.sources)
            if export.spans == 0:
                return Receipt()
            return self._log.append(export.message)
        except BodyRefusedError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"{error}, and nothing of it was stored") from error
        except StoreFailedError as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}: send it again", _SOON) from error

    def _check_sources(self, token: Token, sources: tuple[tuple[str, str], ...]) -> None:
        for emitter, _ in sources:
            if not token.covers(emitter):
                raise Refusal(
                    HTTPStatus.FORBIDDEN, f"token {token.id} is for emitters {token.prefix}/..., and not for {emitter}"
                )
        for emitter, boot in sources:
            if self._claims.claim(emitter, boot, token.id) != token.id:
                raise Refusal(HTTPStatus.FORBIDDEN, f"boot {boot} of {emitter} was claimed under another token")


async def _let_pass(request: Request, chunks: AsyncIterator[bytes]) -> None:
    """Read past the rest of a refused body; but do not ask a client for one that waits to be asked."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        await drain(chunks)


def _check_headers(request: Request) -> bool:
    """Whether the body is gzipped."""
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type != PROTOBUF:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send Content-Type {PROTOBUF}, protobuf only")
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send Content-Encoding gzip, or none")
    return encoding == "gzip"
