"""What a story can do to a request that is under way, and how it knows when."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from lab.engine.client import Answer, Sent
from lab.engine.errors import LabError
from lab.engine.servers import PORTS
from lab.engine.stage import Stage
from lab.engine.traffic import Ask, Sender

SHORT = Ask("acme", 16)


class Node:
    """A client whose requests stay under way until they are hung up on or aborted."""

    def __init__(self, refuses: Collection[str] = ()) -> None:
        self.refuses = refuses
        self.aborts: list[tuple[str, str]] = []
        self._under_way: dict[str, Future[dict[str, Answer]]] = {}

    def send(self, body: dict[str, Any], *, room: int, roles: Collection[str]) -> Sent:
        future = self._under_way[body["rid"]] = Future[dict[str, Answer]]()
        return Sent(future, lambda: self.answer(body["rid"], 0))

    def answer(self, rid: str, status: int = 200) -> None:
        self._under_way[rid].set_result(dict.fromkeys(PORTS, Answer(status, {})))

    def post(self, role: str, path: str, body: dict[str, Any]) -> Answer:
        if role in self.refuses:
            return Answer(500, "no")
        if path == "/abort_request" and not self.aborts:
            self.answer(body["rid"], 499)
        self.aborts.append((role, body["rid"]))
        return Answer(200, {})


def stage(node: Node, truth: Path) -> Stage:
    return Stage(node, Sender(node, "run"), truth)  # type: ignore[arg-type]


def test_a_client_that_goes_away_gets_no_answer(tmp_path: Path) -> None:
    here = stage(Node(), tmp_path)
    here.hang_up(here.begin(SHORT))
    assert [(o.did, o.status, o.ordinary) for o in here.outcomes] == [("hung_up", 0, False)]


def test_an_abort_reaches_just_the_nodes_that_were_named(tmp_path: Path) -> None:
    node = Node()
    here = stage(node, tmp_path)
    here.abort(here.begin(SHORT), ["decode"])
    assert node.aborts == [("decode", "run-000000")]
    assert [(o.did, o.status) for o in here.outcomes] == [("aborted", 499)]


def test_a_node_that_takes_no_abort_is_named(tmp_path: Path) -> None:
    here = stage(Node(refuses=["prefill"]), tmp_path)
    with pytest.raises(LabError, match="prefill answered 500 to an abort"):
        here.abort(here.begin(SHORT))


def test_what_memory_said_of_a_request_is_counted(tmp_path: Path) -> None:
    here = stage(Node(), tmp_path)
    first, second = here.begin(SHORT), here.begin(SHORT)
    said = [("write", first), ("write", second), ("write", first), ("read", first)]
    lines = [json.dumps({"kind": kind, "t": 1, "rank": 0, "rid": pending.rid}) for kind, pending in said]
    (tmp_path / "prefill-12.jsonl").write_text("\n".join(lines) + "\n")
    assert here.count("prefill", "write", first) == 2
    assert here.count("decode", "write", first) == 0


def test_it_goes_on_as_soon_as_memory_said_so(tmp_path: Path) -> None:
    here = stage(Node(), tmp_path)
    pending = here.begin(SHORT)
    line = json.dumps({"kind": "write", "t": 1, "rank": 0, "rid": pending.rid}) + "\n"
    later = threading.Timer(0.2, (tmp_path / "prefill-12.jsonl").write_text, [line])
    later.start()
    here.wait_for("prefill", "write", pending)
    later.join()
    assert here.count("prefill", "write", pending) == 1


def test_the_scheduler_that_wrote_the_truth_is_killed(tmp_path: Path) -> None:
    node = Node()
    here = stage(node, tmp_path)
    pending = here.begin(SHORT)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as scheduler:
        (tmp_path / f"prefill-{scheduler.pid}.jsonl").touch()
        node.answer(pending.rid, 0)
        here.kill("prefill", pending)
        assert scheduler.wait() == -signal.SIGKILL
    assert [outcome.did for outcome in here.outcomes] == ["killed"]
