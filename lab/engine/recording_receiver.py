"""An OTLP/HTTP receiver that keeps each body as it came and answers as the real one does when it stored it."""

from __future__ import annotations

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from lab.captures.capture import Body

PATH = "/v1/traces"
CONTENT_TYPE = "application/x-protobuf"
_EMPTY_RESPONSE = b""  # an ExportTraceServiceResponse with no partial success


class RecordingReceiver:
    """Listens on a free port of 127.0.0.1 while used as a context manager. `token` is the only one that it takes."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._bodies: list[Body] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="recording-receiver", daemon=True)

    @property
    def url(self) -> str:
        """Address to post to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def bodies(self) -> tuple[Body, ...]:
        """What was posted so far, in order of arrival."""
        with self._lock:
            return tuple(self._bodies)

    def __enter__(self) -> RecordingReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _keep(self, body: Body) -> None:
        with self._lock:
            self._bodies.append(body)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("content-length", 0)))
                given = self.headers.get("authorization", "")
                if not secrets.compare_digest(given, f"Bearer {receiver.token}"):
                    self._answer(401)
                elif self.path != PATH or self.headers.get("content-type") != CONTENT_TYPE:
                    self._answer(404 if self.path != PATH else 415)
                else:
                    receiver._keep(Body(data, CONTENT_TYPE, self.headers.get("content-encoding", "")))
                    self._answer(200)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("content-type", CONTENT_TYPE)
                self.send_header("content-length", str(len(_EMPTY_RESPONSE)))
                self.end_headers()
                self.wfile.write(_EMPTY_RESPONSE)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
