"""One post, one answer, and what it means."""

from __future__ import annotations

import socket
import time
from email.utils import formatdate
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from engine_hooks.transport import ExportError, Outcome, Transport
from tests.engine_hooks.receiver import Receiver, Reply


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK), (202, Outcome.OK), (400, Outcome.REFUSED), (413, Outcome.REFUSED), (401, Outcome.DENIED),
        (403, Outcome.DENIED), (408, Outcome.RETRY), (429, Outcome.RETRY), (500, Outcome.RETRY),
        (503, Outcome.RETRY), (404, Outcome.RETRY), (302, Outcome.RETRY),
    ],
)  # fmt: skip
def test_a_status_means(status: int, outcome: Outcome, receiver: Receiver) -> None:
    receiver.script = [Reply(status)]

    answer = Transport(receiver.url).post(b"")

    assert (answer.outcome, answer.status) == (outcome, status)


def test_a_post_is_gzipped_protobuf_for_the_traces_path_with_the_token(receiver: Receiver, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-word\nsecond line\n")

    Transport(receiver.url, token).post(b"\x0a\x00")

    (request,) = receiver.requests
    assert (request.path, request.body) == ("/v1/traces", b"\x0a\x00")
    assert request.headers["Content-Type"] == "application/x-protobuf"
    assert request.headers["Authorization"] == "Bearer secret-word"


def test_a_path_in_the_address_is_kept(receiver: Receiver) -> None:
    Transport(f"{receiver.url}/otlp/v1/traces").post(b"")

    assert receiver.requests[0].path == "/otlp/v1/traces"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("-1", 0.0), ("soon", None), (None, None)])
def test_the_pause_that_the_receiver_asks_for(header: str | None, seconds: float | None, receiver: Receiver) -> None:
    receiver.script = [Reply(503, {"Retry-After": header} if header else {})]

    assert Transport(receiver.url).post(b"").retry_after == seconds


def test_a_pause_until_a_date(receiver: Receiver) -> None:
    receiver.script = [Reply(503, {"Retry-After": formatdate(time.time() + 100, usegmt=True)})]

    asked = Transport(receiver.url).post(b"").retry_after

    assert asked is not None
    assert 90 < asked <= 100


def test_spans_that_an_accepted_message_lost_are_told(receiver: Receiver) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=2, error_message="two had no tenant")
    receiver.script = [Reply(200, body=ExportTraceServiceResponse(partial_success=partial).SerializeToString())]

    answer = Transport(receiver.url).post(b"")

    assert (answer.outcome, answer.rejected, answer.detail) == (Outcome.OK, 2, "two had no tenant")


def test_an_answer_that_is_not_protobuf_is_still_an_answer(receiver: Receiver) -> None:
    receiver.script = [Reply(200, body=b'{"ok": true}')]

    assert Transport(receiver.url).post(b"").outcome is Outcome.OK


def test_what_the_receiver_said_is_one_printable_line(receiver: Receiver) -> None:
    receiver.script = [Reply(400, body=b"no\r\n\x1b[31mred" + b"x" * 1000)]

    detail = Transport(receiver.url).post(b"").detail

    assert detail.startswith("HTTP 400: no")
    assert detail.isprintable()
    assert len(detail) < 250


def test_a_refusal_in_protobuf_is_read(receiver: Receiver) -> None:
    status = b"\x08\x03\x12\x0fnot protobuf: 7"  # google.rpc.Status: code 3, message
    receiver.script = [Reply(400, {"Content-Type": "application/x-protobuf"}, status)]

    assert Transport(receiver.url).post(b"").detail == "HTTP 400: not protobuf: 7"


def test_nobody_there_is_a_retry() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    answer = Transport(f"http://127.0.0.1:{port}").post(b"")

    assert answer.outcome is Outcome.RETRY
    assert "refused" in answer.detail


def test_a_receiver_that_hangs_up_is_a_retry(receiver: Receiver) -> None:
    receiver.script = [Reply(200, hang_up=True)]

    assert Transport(receiver.url).post(b"").outcome is Outcome.RETRY


def test_a_receiver_that_takes_too_long_is_a_retry(receiver: Receiver) -> None:
    receiver.script = [Reply(200, delay=0.5)]

    assert Transport(receiver.url, timeout=0.05).post(b"").outcome is Outcome.RETRY


def test_a_kept_connection_that_was_closed_meanwhile_is_no_failure(receiver: Receiver) -> None:
    transport = Transport(receiver.url)
    receiver.script = [Reply(200), Reply(200, hang_up=True), Reply(200)]

    assert [transport.post(b"").outcome for _ in range(2)] == [Outcome.OK, Outcome.OK]


def test_a_new_token_is_read_after_a_denial(receiver: Receiver, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    transport = Transport(receiver.url, token)
    receiver.script = [Reply(401)]
    token.write_text("new\n")

    transport.post(b"")
    transport.post(b"")

    assert [request.headers["Authorization"] for request in receiver.requests] == ["Bearer old", "Bearer new"]


def test_a_token_file_that_vanished_is_said_and_the_old_token_stays(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    transport = Transport(receiver.url, token)
    token.unlink()
    receiver.script = [Reply(401)]

    transport.post(b"")
    transport.post(b"")

    assert receiver.requests[1].headers["Authorization"] == "Bearer old"
    assert "PAGEWITNESS_EXPORT_TOKEN_FILE" in caplog.text


@pytest.mark.parametrize("content", ["", "\n", "two words\n", "tok\x07en\n"])
def test_a_token_file_without_a_token_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(content)

    with pytest.raises(ExportError, match="holds no token"):
        Transport("http://127.0.0.1:4318", tmp_path / "token")


@pytest.mark.parametrize(
    "url",
    [
        "", "localhost:4318", "ftp://host", "http://", "http://host:port", "http://u:p@host", "http://h/?q",
        "http://[x", "http://h/é", "http://h/a b", "http://h/\udcff", "http://a..b", "http://.b",
        f"http://{'a' * 64}.b", "http://a b", f"https://b.{'ü' * 64}", "http://a\0b",
    ],
    ids=repr,
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ExportError, match="PAGEWITNESS_EXPORT_URL"):
        Transport(url)


@pytest.mark.parametrize(
    "url", ["http://[::1]:4318", "http://bücher.example", f"http://{'a' * 63}.b.", "http://h/%C3%A9"]
)
def test_an_unusual_address_can_be_used(url: str) -> None:
    assert Transport(url).url == url.removesuffix("/%C3%A9")
