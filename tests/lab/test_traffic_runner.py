"""The process that sends requests from inside a pair's namespace: answers come by number, and clients can leave."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lab.engine.paths import HERE


class Node(ThreadingHTTPServer):
    """Answers a body that says `wait` only when its client has gone away, and any other at once."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.came = threading.Event()
        self.left = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Node

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "wait" in body:
            self.server.came.set()
            if self.connection.recv(1) == b"":
                self.server.left.set()
            return
        said = json.dumps(body).encode()
        self.send_response(400 if "bad" in body else 200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def node() -> Iterator[Node]:
    server = Node()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def runner() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", str(HERE / "traffic_runner.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def tell(runner: subprocess.Popen[str], what: dict[str, Any]) -> None:
    assert runner.stdin is not None
    runner.stdin.write(json.dumps(what) + "\n")
    runner.stdin.flush()


def heard(runner: subprocess.Popen[str]) -> dict[str, Any]:
    assert runner.stdout is not None
    answer: dict[str, Any] = json.loads(runner.stdout.readline())
    return answer


def job(node: Node, number: int, **bodies: dict[str, Any]) -> dict[str, Any]:
    url = f"http://127.0.0.1:{node.server_address[1]}/generate"
    return {"id": number, "timeout": 30, "calls": {name: {"url": url, "body": body} for name, body in bodies.items()}}


def test_every_call_of_a_job_is_answered_under_its_name(runner: subprocess.Popen[str], node: Node) -> None:
    tell(runner, job(node, 7, prefill={"a": 1}, decode={"bad": 2}))
    answers = heard(runner)
    assert answers["id"] == 7
    assert answers["answers"] == {
        "prefill": {"status": 200, "body": '{"a": 1}'},
        "decode": {"status": 400, "body": '{"bad": 2}'},
    }


def test_a_client_that_hangs_up_is_gone_for_the_node(runner: subprocess.Popen[str], node: Node) -> None:
    tell(runner, job(node, 1, decode={"wait": 1}))
    assert node.came.wait(30)
    tell(runner, {"hang_up": 1})
    assert heard(runner)["answers"]["decode"]["status"] == 0
    assert node.left.wait(30)


def test_one_that_hangs_up_leaves_the_others_alone(runner: subprocess.Popen[str], node: Node) -> None:
    tell(runner, job(node, 1, decode={"wait": 1}))
    assert node.came.wait(30)
    tell(runner, job(node, 2, decode={"a": 1}))
    assert (heard(runner)["id"], node.left.is_set()) == (2, False)
    tell(runner, {"hang_up": 1})
    assert heard(runner)["id"] == 1


def test_a_node_that_is_not_there_is_status_zero(runner: subprocess.Popen[str]) -> None:
    tell(runner, {"id": 1, "timeout": 5, "calls": {"decode": {"url": "http://127.0.0.1:1/generate", "body": {}}}})
    assert heard(runner)["answers"]["decode"]["status"] == 0
