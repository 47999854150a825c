"""Requests to a pair, from outside its network namespace: one helper process inside sends them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
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


NOT_ASKED = Answer(0, "not asked")


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """What both nodes answered to one request."""

    prefill: Answer
    decode: Answer


class Sent:
    """A request under way."""

    def __init__(self, future: Future[dict[str, Answer]], hang_up: Callable[[], None]) -> None:
        self._future = future
        self._hang_up = hang_up

    @property
    def done(self) -> bool:
        """Whether every node that was asked has answered, or will not."""
        return self._future.done()

    def result(self) -> PairAnswer:
        """Wait for the answers. Raises LabError when the helper process ends before."""
        answers = self._future.result()
        return PairAnswer(**{role: answers.get(role, NOT_ASKED) for role in PORTS})

    def hang_up(self) -> None:
        """Close the connections, as a client that goes away does; the answers are then status 0."""
        self._hang_up()


class Client:
    """Sends requests to both nodes of a pair. Close it, or use it as a context manager."""

    def __init__(self, namespace: Namespace) -> None:
        command = namespace.command(sys.executable, "-I", str(HERE / "traffic_runner.py"))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._waiting: dict[int, Future[dict[str, Answer]]] = {}
        self._ids = itertools.count()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="lab-client", daemon=True)
        self._reader.start()

    def send(
        self,
        body: dict[str, Any],
        *,
        room: int,
        path: str = "/generate",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        roles: Collection[str] = tuple(PORTS),
    ) -> Sent:
        """Post one request to both nodes (or those of `roles`), joined by `room`; a field of `body` wins."""
        whole = {"bootstrap_host": HOST, "bootstrap_port": BOOTSTRAP_PORT, "bootstrap_room": room} | body
        number, future = self._submit({role: _call(role, path, whole) for role in roles}, timeout)
        return Sent(future, lambda: self._tell({"hang_up": number}))

    def ask(
        self, body: dict[str, Any], *, room: int, path: str = "/generate", timeout: float = DEFAULT_TIMEOUT_SECONDS
    ) -> PairAnswer:
        """`send`, and wait for both answers."""
        return self.send(body, room=room, path=path, timeout=timeout).result()

    def post(self, role: str, path: str, body: dict[str, Any], timeout: float = DEFAULT_TIMEOUT_SECONDS) -> Answer:
        """Post this body to one node, and wait for its answer."""
        _, future = self._submit({role: _call(role, path, body)}, timeout)
        return future.result()[role]

    def _submit(self, calls: dict[str, Any], timeout: float) -> tuple[int, Future[dict[str, Answer]]]:
        number, future = next(self._ids), Future[dict[str, Answer]]()
        with self._lock:
            self._waiting[number] = future
        self._tell({"id": number, "timeout": timeout, "calls": calls})
        return number, future

    def _tell(self, what: dict[str, Any]) -> None:
        with self._lock:
            if self._process.poll() is not None:
                raise LabError("the traffic runner inside the pair's namespace has ended; is the pair still up?")
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

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
            with self._lock:
                future = self._waiting.pop(job["id"])
            future.set_result({role: _decoded(answer) for role, answer in job["answers"].items()})
        with self._lock:
            left, self._waiting = self._waiting, {}
        for future in left.values():
            future.set_exception(LabError("the traffic runner ended before it had an answer"))


def _call(role: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"url": f"http://{HOST}:{PORTS[role]}{path}", "body": body}


def _decoded(answer: dict[str, Any]) -> Answer:
    try:
        body: Any = json.loads(answer["body"])
    except json.JSONDecodeError:
        body = answer["body"]
    return Answer(int(answer["status"]), body)
