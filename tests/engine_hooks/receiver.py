"""A small real HTTP server that takes OTLP, or fails on a script; and what it got, decoded."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from engine_hooks.conventions import SPANS_BY_NAME, Span


@dataclass(frozen=True)
class Sent:
    """One span as the receiver got it."""

    emitter: str
    boot: str
    name: str
    trace_id: bytes
    span_id: bytes
    values: Mapping[str, Any]

    @property
    def seq(self) -> int:
        return int(self.values["pagewitness.seq"])

    @property
    def span(self) -> Span:
        return SPANS_BY_NAME[self.name]


def decode(body: bytes) -> list[Sent]:
    """The spans of an OTLP message."""
    found = []
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        about = {attribute.key: _plain(attribute.value) for attribute in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                keys = [attribute.key for attribute in span.attributes]
                assert len(keys) == len(set(keys))
                values = {attribute.key: _plain(attribute.value) for attribute in span.attributes}
                found.append(
                    Sent(
                        about["service.instance.id"], about["pagewitness.boot"], span.name, span.trace_id, span.span_id,
                        values,
                    )
                )  # fmt: skip
    return found


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind)


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    hang_up: bool = False


@dataclass
class Request:
    path: str
    headers: Mapping[str, str]
    body: bytes  # uncompressed

    @property
    def spans(self) -> list[Sent]:
        return decode(self.body)


class Receiver:
    """A small real HTTP server. `script` holds replies for the next requests; then `rule` decides; then 200."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.accepted: list[Request] = []
        self.script: list[Reply] = []
        self.rule: Callable[[Request], Reply | None] = lambda request: None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Encoding"] == "gzip"
                request = Request(self.path, dict(self.headers), gzip.decompress(body))
                receiver.requests.append(request)
                reply = receiver.script.pop(0) if receiver.script else receiver.rule(request) or Reply(200)
                time.sleep(reply.delay)
                if reply.hang_up:
                    self.close_connection = True
                    return
                if reply.status == 200:
                    receiver.accepted.append(request)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                with suppress(BrokenPipeError):  # the client did not wait
                    self.wfile.write(reply.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def facts(self) -> list[Sent]:
        """What was accepted, without the heartbeats."""
        return [span for request in self.accepted for span in request.spans if span.name != "pagewitness.emitter"]

    @property
    def heartbeats(self) -> list[Sent]:
        return [span for request in self.accepted for span in request.spans if span.name == "pagewitness.emitter"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
