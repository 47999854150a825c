from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import SecretStr

from notify.client import Client, Service, find_service
from notify.errors import CommandError, UsageError
from notify.exit_codes import ExitCode
from notify.service.service_file import ServiceFile
from notify.settings import Settings


@contextmanager
def answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> Iterator[tuple[Service, list[str]]]:
    """A server that gives everybody this answer, and the requests that it saw."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(f"{self.path} {self.headers.get('Authorization')}")
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Service(f"http://127.0.0.1:{server.server_address[1]}", "secret-token", "start one"), seen
    finally:
        server.shutdown()
        server.server_close()


def settings_of(data_dir: Path, **more: object) -> Settings:
    return Settings().model_copy(update={"data_dir": data_dir, "url": None, "token": None, **more})


def test_the_token_is_shown_and_what_is_not_asked_is_left_out() -> None:
    with answering(200, b'{"a": 1}') as (service, seen), Client(service) as client:
        assert client.get("affected", tenant="a b&c", from_=None, scope="all") == {"a": 1}
    assert seen == ["/api/v1/affected?tenant=a+b%26c&scope=all Bearer secret-token"]


@pytest.mark.parametrize("status", [404, 400])
def test_what_the_service_does_not_know_is_a_usage_error_in_its_words(status: int) -> None:
    problem = json.dumps({"detail": "unknown tenant 'x'"}).encode()
    with answering(status, problem) as (service, _seen), Client(service) as client:
        with pytest.raises(UsageError, match="unknown tenant 'x'") as raised:
            client.get("affected")
    assert raised.value.exit_code is ExitCode.USAGE


def test_a_refused_token_is_named_as_such() -> None:
    with answering(401, b'{"detail": "no"}') as (service, _seen), Client(service) as client:
        with pytest.raises(CommandError, match=r"refused the responder token.*PAGEWITNESS_TOKEN") as raised:
            client.get("status")
    assert raised.value.exit_code is ExitCode.ERROR


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (404, b"<html>"), (500, b"oops"), (404, b"[]")])
def test_something_else_that_listens_there_is_no_service(status: int, body: bytes) -> None:
    with answering(status, body) as (service, _seen), Client(service) as client:
        with pytest.raises(CommandError, match="not a pagewitness service"):
            client.get("status")


@pytest.mark.parametrize("value", ["\udcff", "x" * 3000])
def test_a_value_that_cannot_be_sent_is_a_usage_error(value: str) -> None:
    with answering(200, b"{}") as (service, seen), Client(service) as client:
        with pytest.raises(UsageError):
            client.get("affected", tenant=value)
    assert seen == []


def test_the_token_does_not_follow_a_redirect() -> None:
    with answering(200, b"{}") as (elsewhere, seen):
        with answering(302, b"", {"Location": elsewhere.url}) as (service, _seen), Client(service) as client:
            with pytest.raises(CommandError, match="not a pagewitness service"):
                client.get("status")
    assert seen == []


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with answering(200, b"{}") as (service, _seen), Client(service) as client:
        assert client.get("status") == {}


def test_nobody_who_listens_is_said_with_what_to_do() -> None:
    with answering(200, b"{}") as (service, _seen):
        pass
    with (
        Client(service) as client,
        pytest.raises(CommandError, match=r"no pagewitness service answers at .*: start one"),
    ):
        client.get("status")


def test_without_a_service_the_message_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"start one with `pagewitness serve --data-dir {tmp_path}`"):
        find_service(settings_of(tmp_path))


def test_a_service_that_ended_without_cleaning_up_is_none(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    ServiceFile("http://127.0.0.1:1", child, "t" * 32).write(tmp_path)
    with pytest.raises(CommandError, match=f"pid {child}.*has ended"):
        find_service(settings_of(tmp_path))


def test_the_file_of_a_running_service_is_enough(tmp_path: Path) -> None:
    ServiceFile("http://127.0.0.1:1", os.getpid(), "t" * 32).write(tmp_path)
    found = find_service(settings_of(tmp_path))
    assert (found.url, found.token) == ("http://127.0.0.1:1", "t" * 32)


def test_a_url_and_a_token_come_before_the_file(tmp_path: Path) -> None:
    ServiceFile("http://127.0.0.1:1", os.getpid(), "t" * 32).write(tmp_path)
    found = find_service(settings_of(tmp_path, url="https://witness.example/", token=SecretStr("u" * 32)))
    assert (found.url, found.token) == ("https://witness.example", "u" * 32)


def test_a_url_without_a_token_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="PAGEWITNESS_TOKEN"):
        find_service(settings_of(tmp_path, url="https://witness.example"))


@pytest.mark.parametrize(
    "url",
    [
        "witness.example", "ftp://witness.example", "http://", "http://a..b", f"http://{'a' * 64}.b", "http://[x",
        "http://h:99999",
    ],
)  # fmt: skip
def test_a_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="PAGEWITNESS_URL"):
        find_service(settings_of(tmp_path, url=url, token=SecretStr("u" * 32)))


@pytest.mark.parametrize("token", ["tökén" * 8, "\udcff" * 32, "two\nlines", "t" * 32 + " "])
@pytest.mark.parametrize("url", ["https://witness.example", None])
def test_a_token_that_no_header_can_hold_is_a_usage_error_that_does_not_show_it(
    tmp_path: Path, token: str, url: str | None
) -> None:
    ServiceFile("http://127.0.0.1:1", os.getpid(), "t" * 32).write(tmp_path)
    with pytest.raises(UsageError, match="PAGEWITNESS_TOKEN") as caught:
        find_service(settings_of(tmp_path, url=url, token=SecretStr(token)))
    assert token not in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE
