"""One OTLP/HTTP request: post a message, say what the answer means. No retries, no waiting: see `exporter`."""

from __future__ import annotations

import enum
import gzip
import http.client
import logging
import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from engine_hooks.clock_offset import TIME_HEADER, ClockOffset
from engine_hooks.version import VERSION

_log = logging.getLogger(__name__)
_PATH = "/v1/traces"
_PROTOBUF = "application/x-protobuf"
_MAX_ANSWER = 64 * 1024
_GZIP_LEVEL = 1  # 3 to 4 times smaller already; higher levels cost more time than all the rest of the agent


class ExportError(Exception):
    """The receiver's address or the token cannot be used. The message says what to set."""


class Outcome(enum.Enum):
    """What an answer means for the message."""

    OK = "ok"  # 2xx: the receiver has it durably
    RETRY = "retry"  # not now: connection errors, 408, 429, 5xx, and answers that no OTLP receiver gives
    REFUSED = "refused"  # 400, 413: something in this message will never be taken
    DENIED = "denied"  # 401, 403: the token is not good for this emitter


@dataclass(frozen=True, slots=True)
class Answer:
    """`detail` is one line for a log; `retry_after` is what the receiver asked for in seconds, if it did; `rejected`
    is how many spans of an accepted message it reported as not stored."""

    outcome: Outcome
    detail: str
    status: int = 0
    retry_after: float | None = None
    rejected: int = 0


class Transport:
    """A connection to one receiver, kept open between messages.

    `url` is its address; `/v1/traces` is added if it has no path. `token_file` holds the token on its first line and
    is read again after each denial. Raises ExportError.
    """

    def __init__(self, url: str, token_file: Path | None = None, timeout: float = 10.0) -> None:
        parts, port = _address(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port, self._timeout = parts.hostname or "", port, timeout
        self._path = parts.path if parts.path not in ("", "/") else _PATH
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._token_file = token_file
        self._token = self._read_token()
        self._connection: http.client.HTTPConnection | None = None
        self.clock_offset = ClockOffset()
        """What the receiver's answers say of its clock."""

    def post(self, body: bytes) -> Answer:
        """Post one OTLP message (uncompressed) and say what became of it. Never raises for what a receiver does."""
        return self.post_compressed(gzip.compress(body, _GZIP_LEVEL, mtime=0))

    def post_compressed(self, body: bytes) -> Answer:
        """As `post`, for a message that is gzipped already."""
        reused = self._connection is not None
        try:
            try:
                return self._exchange(body)
            except (ConnectionError, http.client.BadStatusLine):
                if not reused:
                    raise
                self.close()  # a kept connection that the receiver had closed meanwhile says nothing about it
                return self._exchange(body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Answer(Outcome.RETRY, f"{self.url} cannot be reached: {_line(str(error) or type(error).__name__)}")

    def close(self) -> None:
        """Close the connection; the next message opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, body: bytes) -> Answer:
        connection = self._connect()
        started = self.clock_offset.start()
        connection.request("POST", self._path, body, self._headers())
        response = connection.getresponse()
        self.clock_offset.note(started, response.getheader(TIME_HEADER))
        content = response.read(_MAX_ANSWER)
        if response.read(1):
            self.close()  # not worth reading on
        answer = _judge(response, content)
        if answer.outcome is Outcome.DENIED:
            self._reload_token()
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._tls is not None:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout, context=self._tls
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return self._connection

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": _PROTOBUF,
            "Content-Encoding": "gzip",
            "User-Agent": f"pagewitness-hooks/{VERSION}",
        }
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _read_token(self) -> str:
        if self._token_file is None:
            return ""
        try:
            lines = self._token_file.read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ExportError(
                f"cannot read a token from {self._token_file}: {error}; set PAGEWITNESS_EXPORT_TOKEN_FILE to a file "
                "whose first line is the token"
            ) from error
        token = lines[0].strip() if lines else ""
        if not token or not token.isprintable() or " " in token:
            raise ExportError(f"{self._token_file} holds no token: its first line must be one printable word")
        return token

    def _reload_token(self) -> None:
        try:
            self._token = self._read_token()
        except ExportError as error:  # keep the old one; the message says what to do
            _log.error("%s", error)


def _address(url: str) -> tuple[SplitResult, int | None]:
    """The address in its parts, and its port. Raises ExportError for one that no request can be sent to."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ExportError(f"{url!r} is not an address ({error}); set PAGEWITNESS_EXPORT_URL") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ExportError(f"{url!r} is not an address like http://host:4318; set PAGEWITNESS_EXPORT_URL")
    try:
        port = parts.port
    except ValueError as error:
        raise ExportError(f"{url!r} has no valid port; set PAGEWITNESS_EXPORT_URL") from error
    if not _is_host(parts.hostname):
        raise ExportError(
            f"{url!r} has no valid host: each part between its dots is 1 to 63 characters; set PAGEWITNESS_EXPORT_URL"
        )
    if not _is_word(parts.path):
        raise ExportError(
            f"{url!r} has a path with characters that must be percent-encoded; set PAGEWITNESS_EXPORT_URL"
        )
    return parts, port


def _is_host(name: str) -> bool:
    """Whether a name can be looked up and sent in a header: both put it into the IDNA encoding."""
    try:
        return _is_word(name.encode("idna").decode("ascii"))
    except UnicodeError:
        return False


def _is_word(text: str) -> bool:
    """Whether http.client takes this text: printable ASCII without blanks."""
    return text.isascii() and text.isprintable() and " " not in text


def _judge(response: http.client.HTTPResponse, content: bytes) -> Answer:
    status = response.status
    said = _line(_message(response.getheader("Content-Type"), content)) if status >= 300 else ""
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if 200 <= status < 300:
        try:
            partial = ExportTraceServiceResponse.FromString(content).partial_success
        except DecodeError:  # some receivers answer with JSON or nothing; the status is what counts
            return Answer(Outcome.OK, text, status)
        return Answer(Outcome.OK, _line(partial.error_message) or text, status, rejected=partial.rejected_spans)
    if status in (400, 413):
        return Answer(Outcome.REFUSED, text, status)
    if status in (401, 403):
        return Answer(Outcome.DENIED, text, status)
    return Answer(Outcome.RETRY, text, status, _seconds(response.getheader("Retry-After")))


def _message(content_type: str | None, content: bytes) -> str:
    """What a refusal says: OTLP wants a google.rpc.Status, others send text."""
    if content_type == _PROTOBUF:
        try:
            # Its message is field 2 as here, and its code field 1 a number too: one message type less to depend on.
            return str(ExportTracePartialSuccess.FromString(content).error_message)
        except DecodeError:
            pass  # then it is text, whatever it calls itself
    return content.decode("utf-8", "replace")


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After as seconds from now: a number, or an HTTP date."""
    if retry_after is None:
        return None
    try:
        return max(float(int(retry_after)), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None


def _line(text: str) -> str:
    """What a receiver said, safe for one log line."""
    return "".join(character if character.isprintable() else " " for character in text[:200]).strip()
