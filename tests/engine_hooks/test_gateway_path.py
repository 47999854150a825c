"""Which path is an inference path: every one that something behind the gateway may take for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_hooks.gateway import TenantGateway
from engine_hooks.gateway_path import find_path
from engine_hooks.gateway_request import INFERENCE_PATHS
from tests.engine_hooks.gateways import acme, run, settings

CLAIM = b'{"text":"x","cache_salt":"stolen"}'


class Behind:
    """Whatever stands behind the gateway: it takes any path, and keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def post(rings: Path, **scope: Any) -> tuple[int, list[bytes]]:
    """The status of a request with this path (as a server decoded it), and what went on."""
    behind = Behind()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": CLAIM, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    gateway = TenantGateway(behind, identify=acme, settings=settings(rings))
    run(gateway({"type": "http", "method": "POST", "headers": [], "query_string": b"", **scope}, receive, send))
    return sent[0]["status"], behind.bodies


NEARLY = [
    "/generate/", "//generate", "/GENERATE", "/v1//completions", "/v1/../generate", "/./generate", "/gener%61te",
    "/gener%2561te", "/generate%0A", "/generate\n", "/generate\t", " /generate ", "/gene\x00rate", "/generate\x00.txt",
    "/generate?x=1", "/generate%3Fx", "/generate%253F", "/generate#", "/generate%23x", "/generate;x", "/generate;a/b",
    "/v1;a/chat;b/completions", "/generate\\", "\\generate", "/v1\\chat\\completions", "/v1%5Ccompletions",
    "/x/%2e%2e/generate", "/x%2f..%2fgenerate", "/x/..;/generate", "/generate%3B%2F..", "/generate%E2%80%8B",
    "//host/generate", "http://host/generate", "/generate%zz", "/generate%", "/x?/../../generate",
]  # fmt: skip


@pytest.mark.parametrize("path", NEARLY, ids=repr)
def test_what_anything_behind_the_gateway_may_take_for_an_inference_path_is_one(tmp_path: Path, path: str) -> None:
    status, (body,) = post(tmp_path, path=path)
    assert status == 200
    assert b"stolen" not in body
    assert b'"cache_salt":"1.p1.' in body


@pytest.mark.parametrize(
    "path",
    ["/generate?/../v1/completions", "/%25252525252525252525gener%61te", "/a b/generate%3F/generate", "/x%00/generate"],
)
def test_a_path_that_could_be_this_or_that_reaches_nobody(tmp_path: Path, path: str) -> None:
    assert post(tmp_path, path=path) == (400, [])


@pytest.mark.parametrize(
    "path",
    [
        "/other",
        "/",
        "",
        "/v1/models",
        "/generate/more",
        "/generated",
        "/files/how%20to%20generate",
        "/a%3Fb;c\\d",
        "/ü",
    ],
)
def test_another_path_passes_with_its_body_as_it_came(tmp_path: Path, path: str) -> None:
    assert post(tmp_path, path=path) == (200, [CLAIM])


@pytest.mark.parametrize("method", ["post", "Post", "put"])
def test_a_method_may_be_in_small_letters(tmp_path: Path, method: str) -> None:
    _, (body,) = post(tmp_path, path="/generate", method=method)
    assert b"stolen" not in body


@pytest.mark.parametrize(
    ("root", "path"),
    [
        (None, "/generate"), ("", "/generate"), ("/", "/generate"), ("/llm", "/llm/generate"),
        ("/llm/", "/llm/generate"), ("/llm", "/llm//generate"), ("/llm", "/llm/gener%61te"), ("/llm", "/generate"),
        ("/LLM", "/llm/generate;x"),
    ],
)  # fmt: skip
def test_the_path_may_begin_with_where_the_application_is_mounted(tmp_path: Path, root: str | None, path: str) -> None:
    _, (body,) = post(tmp_path, path=path, root_path=root)
    assert b"stolen" not in body


@given(
    path=st.sampled_from(sorted(INFERENCE_PATHS)),
    escaped=st.sets(st.integers(0, 19)),
    times=st.integers(0, 6),
    tail=st.sampled_from(["", "?", "#x", ";v=1", "\n", "\r\n", " ", "\\", "/", "\0", "%"]),
)
def test_however_often_a_path_is_encoded_it_is_found(path: str, escaped: set[int], times: int, tail: str) -> None:
    sent = "".join(f"%{ord(letter):02x}" if place in escaped else letter for place, letter in enumerate(path)) + tail
    for _ in range(times):
        sent = quote(sent, safe="/")
    assert find_path({"path": sent}, INFERENCE_PATHS) == path
