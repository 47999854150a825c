"""What is too large, too slow or too much is refused within bounds, the sender hears it, and the next request works."""

from __future__ import annotations

import gzip
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.body import BadGzipError, BodyTooLargeError, gunzip
from collector.export_request import MAX_ATTRIBUTES, MAX_RESOURCES, MAX_SCOPES
from collector.log.contract import EvidenceLog
from collector.receiver import create_receiver
from collector.settings import ReceiverSettings
from collector.store import BodyRefusedError, Receipt, Store, StoreFailedError
from collector.tokens import TokenFile
from tests.collector.conftest import Rows
from tests.support.otlp import Fact, export, message
from tests.support.receivers import PROTOBUF, Sender, sender, served
from tests.support.stores import fresh_store

Made = Callable[..., Fact]
READ = "pagewitness.page.read"
MIB = 1024 * 1024


@contextmanager
def receiver(store: Store, log: EvidenceLog | None = None, **settings: float) -> Iterator[Sender]:
    """A receiver with other settings, and a sender to it."""
    chosen = ReceiverSettings.model_validate(settings)
    with served(create_receiver(store, TokenFile(store.data_dir), chosen, log)) as url:
        yield sender(url, store.data_dir)


def bomb(size: int) -> bytes:
    """Gzip that unpacks to so many zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(bytes(MIB)) for _ in range(size // MIB)), packer.flush()])


def words(content: bytes) -> str:
    text: str = Status.FromString(content).message
    return text


# ---------------------------------------------------------------- size


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
def test_a_body_of_100_mb_is_413_and_the_next_request_works(
    announced: bool, host1: Sender, made: Made, facts: Rows
) -> None:
    body = (bytes(MIB) for _ in range(100))
    response = host1.post(body, {"Content-Length": str(100 * MIB)} if announced else {})
    assert response.status_code == 413
    assert f"{4 * MIB}" in words(response.content)
    assert "send smaller batches" in words(response.content)
    assert host1.post(export(made(READ))).status_code == 200
    assert len(facts("seq")) == 1


def test_a_body_at_the_limit_is_taken_and_one_over_it_is_not(store: Store, made: Made) -> None:
    body = export(*(made(READ, seq=seq) for seq in range(1, 50)))
    with receiver(store, receive_max_bytes=len(body)) as host1:
        assert host1.post(body).status_code == 200
        assert host1.post(body + export(made(READ, seq=50))).status_code == 413


def test_a_decompression_bomb_is_413_and_the_next_request_works(host1: Sender, made: Made, facts: Rows) -> None:
    response = host1.post(bomb(256 * MIB), {"Content-Encoding": "gzip"})
    assert response.status_code == 413
    assert words(response.content) == f"the body unpacks to more than {16 * MIB} bytes: send smaller batches"
    assert host1.post(export(made(READ))).status_code == 200
    assert len(facts("seq")) == 1


@pytest.mark.parametrize("members", [1, 32], ids=["in one member", "in many members"])
def test_a_decompression_bomb_is_not_unpacked_beyond_the_limit(members: int) -> None:
    packed = bomb(64 * MIB // members) * members
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLargeError):
            gunzip(packed, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB + len(packed)


def test_gzip_at_the_limit_is_unpacked() -> None:
    assert gunzip(gzip.compress(bytes(1000)), 1000) == bytes(1000)


def test_one_byte_over_the_limit_is_too_many() -> None:
    with pytest.raises(BodyTooLargeError):
        gunzip(gzip.compress(bytes(1001)), 1000)


def test_thousands_of_gzip_members_are_refused() -> None:
    with pytest.raises(BadGzipError, match="more than 64 gzip members"):
        gunzip(gzip.compress(b"") * 10_000, 1000)


def test_too_many_spans_are_413(store: Store, made: Made, facts: Rows) -> None:
    with receiver(store, receive_max_spans=3) as host1:
        response = host1.post(export(*(made(READ, seq=seq) for seq in range(1, 5))))
    assert response.status_code == 413
    assert words(response.content) == "4 spans in one request; send at most 3"
    assert facts("seq") == []


@pytest.mark.parametrize(
    ("what", "most", "where"),
    [
        ("resource_spans", MAX_RESOURCES, lambda request: request.resource_spans),
        ("scope_spans", MAX_SCOPES, lambda request: request.resource_spans[0].scope_spans),
        ("attributes", MAX_ATTRIBUTES, lambda request: request.resource_spans[0].scope_spans[0].spans[0].attributes),
    ],
)
def test_too_many_of_anything_are_413(
    what: str, most: int, where: Callable[[ExportTraceServiceRequest], Any], host1: Sender, made: Made
) -> None:
    request = message(made(READ))
    there = len(where(request))
    where(request).MergeFrom([type(where(request)[0])()] * (most + 1 - there))
    response = host1.post(gzip.compress(request.SerializeToString(), 1), {"Content-Encoding": "gzip"})
    assert response.status_code == 413
    assert words(response.content) == f"{most + 1} {what} in one request; send at most {most}"


# ---------------------------------------------------------------- time


def raw_request(host1: Sender, declared: int, sent: bytes, *more: str) -> socket.socket:
    """A connection on which a request with this Content-Length was begun."""
    host, port = host1.url.split("/")[2].split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    lines = [
        "POST /v1/traces HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {host1.token}",
        f"Content-Type: {PROTOBUF}",
        f"Content-Length: {declared}",
        *more,
    ]
    connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + sent)
    return connection


def test_a_body_that_does_not_arrive_is_503_to_come_again(store: Store, made: Made) -> None:
    with receiver(store, receive_timeout_seconds=0.2) as host1:
        with raw_request(host1, 1000, b"only this", "Connection: close") as connection:
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer.lower()
        assert b"did not arrive within 0.2 seconds" in answer
        assert host1.post(export(made(READ))).status_code == 200


def test_a_sender_that_hangs_up_leaves_nothing(host1: Sender, made: Made, facts: Rows) -> None:
    body = export(made(READ))
    raw_request(host1, len(body), body[:-1]).close()
    assert host1.post(export(made(READ, seq=2))).status_code == 200
    assert [row["seq"] for row in facts("seq")] == [2]


def test_a_sender_that_asks_first_is_not_told_to_go_on(host1: Sender) -> None:
    with raw_request(host1, 100 * MIB, b"", "Expect: 100-continue") as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


# ---------------------------------------------------------------- the store


class Blocked:
    """A log that takes nothing before it is told to."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.waiting = threading.Semaphore(0)

    def append(self, message: bytes) -> Receipt:
        self.waiting.release()
        assert self.go_on.wait(20)
        return Receipt(stored=1)


def test_more_requests_than_may_wait_are_429_to_come_again(store: Store, made: Made) -> None:
    log = Blocked()
    with receiver(store, log, receive_max_requests=2) as host1:
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(host1.post(export(made(READ))).status_code))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert log.waiting.acquire(timeout=20)
        response = host1.post(export(made(READ)))
        log.go_on.set()
        for thread in threads:
            thread.join()
        assert host1.post(export(made(READ))).status_code == 200
    assert (response.status_code, response.headers["Retry-After"]) == (429, "1")
    assert words(response.content) == "2 requests are under way: come again"
    assert statuses == [200, 200]


class Failing:
    """A log that fails in the way it is told."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def append(self, message: bytes) -> Receipt:
        raise self.error


def test_a_store_in_trouble_is_503_to_come_again(store: Store, made: Made) -> None:
    with receiver(store, Failing(StoreFailedError("the store did not take it (NOT_ENOUGH_SPACE)"))) as host1:
        response = host1.post(export(made(READ)))
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert words(response.content) == "the store did not take it (NOT_ENOUGH_SPACE): send it again"


def test_a_request_that_the_store_cannot_read_is_400(store: Store, made: Made) -> None:
    with receiver(store, Failing(BodyRefusedError("the store cannot read it"))) as host1:
        response = host1.post(export(made(READ)))
    assert response.status_code == 400
    assert words(response.content) == "the store cannot read it, and nothing of it was stored"


def test_what_only_the_engine_cannot_read_is_400_and_the_next_request_works(
    host1: Sender, made: Made, facts: Rows
) -> None:
    odd = b"\x08\x01"  # field 1, which is a message, as a number: a field unknown to some readers, an error to others
    response = host1.post(export(made(READ)) + odd)
    assert response.status_code == 400
    assert words(response.content).startswith("the store cannot read it (")
    assert facts("seq") == []
    assert host1.post(export(made(READ))).status_code == 200


def test_a_closed_store_is_503_and_not_a_lost_request(made: Made) -> None:
    with fresh_store() as opened, receiver(opened) as host1:
        assert host1.post(export(made(READ))).status_code == 200
        opened.close()
        assert host1.post(export(made(READ, seq=2))).status_code == 503
