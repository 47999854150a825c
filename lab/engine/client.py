"""Requests to a pair, from outside its network namespace: one helper process inside sends them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from lab.engine.errors import LabError
from lab.engine.namespace import Namespace
from lab.engine.paths import HERE
from lab.engine.servers import BOOTSTRAP_PORT, HOST, PORTS

DEFAULT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one node answered: HTTP status (0: it did not) and body (JSON, or its raw text as a string)."""

    status: int
    body: Any

    @property
    def text(self) -> str:
        """The generated text, empty where there is none."""
        return str(self.body.get("text", "")) if isinstance(self.body, dict) else ""

    @property
    def meta(self) -> dict[str, Any]:
        """The engine's own account of the answer, empty where there is none."""
        found = self.body.get("meta_info") if isinstance(self.body, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def finish(self) -> str:
        """Why the engine stopped (`length`, `stop`, `abort`), empty where it does not say."""
        reason = self.meta.get("finish_reason")
        return str(reason.get("type", "")) if isinstance(reason, dict) else ""


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """What both nodes answered to one request."""

    prefill: Answer
    decode: Answer


class Client:
    """Sends requests to both nodes of a pair. Close it, or use it as a context manager."""

    def __init__(self, namespace: Namespace) -> None:
        command = namespace.command(sys.executable, "-I", str(HERE / "traffic_runner.py"))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._waiting: dict[int, Future[PairAnswer]] = {}
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="lab-client", daemon=True)
        self._reader.start()

    def send(
        self, body: dict[str, Any], *, room: int, path: str = "/generate", timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Future[PairAnswer]:
        """Post one request to both nodes, joined by `room`; the future gives both answers."""
        whole = body | {"bootstrap_host": HOST, "bootstrap_port": BOOTSTRAP_PORT, "bootstrap_room": room}
        calls = {role: {"url": f"http://{HOST}:{port}{path}", "body": whole} for role, port in PORTS.items()}
        future: Future[PairAnswer] = Future()
        with self._lock:
            if self._process.poll() is not None:
                raise LabError("the traffic runner inside the pair's namespace has ended; is the pair still up?")
            number = next(self._ids)
            self._waiting[number] = future
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "timeout": timeout, "calls": calls}) + "\n")
            self._process.stdin.flush()
        return future

    def ask(
        self, body: dict[str, Any], *, room: int, path: str = "/generate", timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> PairAnswer:
        """`send`, and wait for both answers."""
        return self.send(body, room=room, path=path, timeout=timeout).result()

    def close(self) -> None:
        """Wait for what is under way, then end the helper process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join()
        self._process.wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            job = json.loads(line)
            answers = {role: _decoded(job["answers"][role]) for role in PORTS}
            with self._lock:
                future = self._waiting.pop(job["id"])
            future.set_result(PairAnswer(**answers))
        with self._lock:
            left, self._waiting = self._waiting, {}
        for future in left.values():
            future.set_exception(LabError("the traffic runner ended before it had an answer"))


def _decoded(answer: dict[str, Any]) -> Answer:
    try:
        body: Any = json.loads(answer["body"])
    except json.JSONDecodeError:
        body = answer["body"]
    return Answer(int(answer["status"]), body)
