"""The recording receiver keeps what the real agent posts, byte for byte, and takes no other token than its own."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from engine_hooks.transport import Outcome, Transport
from lab.engine.recording_receiver import PATH, RecordingReceiver

HEADERS = {"content-type": "application/x-protobuf"}


@pytest.fixture
def receiver() -> Iterator[RecordingReceiver]:
    with RecordingReceiver() as running:
        yield running


def test_the_agents_transport_takes_its_answer_for_stored(receiver: RecordingReceiver, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(receiver.token)
    assert Transport(receiver.url, token).post(b"evidence").outcome is Outcome.OK
    (body,) = receiver.bodies()
    assert (gzip.decompress(body.data), body.content_type, body.content_encoding) == (
        b"evidence",
        "application/x-protobuf",
        "gzip",
    )


def test_bodies_are_kept_in_order(receiver: RecordingReceiver) -> None:
    headers = HEADERS | {"authorization": f"Bearer {receiver.token}"}
    for data in (b"1", b"2", b"3"):
        assert httpx.post(receiver.url + PATH, content=data, headers=headers).status_code == 200
    assert [body.data for body in receiver.bodies()] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer wrong"}], ids=["none", "wrong"])
def test_another_token_is_denied_and_nothing_is_kept(receiver: RecordingReceiver, given: dict[str, str]) -> None:
    assert httpx.post(receiver.url + PATH, content=b"x", headers=HEADERS | given).status_code == 401
    assert receiver.bodies() == ()


@pytest.mark.parametrize(
    ("path", "kind", "status"), [("/v1/logs", "application/x-protobuf", 404), (PATH, "text/plain", 415)]
)
def test_what_is_no_trace_export_is_refused(receiver: RecordingReceiver, path: str, kind: str, status: int) -> None:
    headers = {"content-type": kind, "authorization": f"Bearer {receiver.token}"}
    assert httpx.post(receiver.url + path, content=b"x", headers=headers).status_code == status
    assert receiver.bodies() == ()
