"""What a story acts on: a running pair, the client in front of it, and what its memory has said so far."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from lab.engine.client import Client
from lab.engine.errors import LabError
from lab.engine.servers import PORTS
from lab.engine.traffic import ABORTED, HUNG_UP, KILLED, Ask, Outcome, Pending, Sender, room_of

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.05


class Stage:
    """One run of a story. `truth` is the folder in which the truth plugin writes; `outcomes` in order of their ends."""

    def __init__(self, client: Client, sender: Sender, truth: Path) -> None:
        self._client = client
        self._sender = sender
        self._truth = truth
        self.outcomes: list[Outcome] = []

    def play(self, asks: Iterable[Ask]) -> None:
        """Send requests one after the other."""
        for ask in asks:
            self.end(self.begin(ask))

    def play_at_once(self, asks: Iterable[Ask]) -> None:
        """Send requests all at once, and wait for all."""
        for pending in [self.begin(ask) for ask in asks]:
            self.end(pending)

    def begin(self, ask: Ask) -> Pending:
        """Send one request, and leave it under way."""
        return self._sender.begin(ask)

    def end(self, pending: Pending, did: str = "") -> None:
        """Wait for the end of a request; `did` says what was done to it."""
        self.outcomes.append(pending.outcome(did))

    def hang_up(self, pending: Pending) -> None:
        """The client of a request goes away."""
        pending.sent.hang_up()
        self.end(pending, HUNG_UP)

    def abort(self, pending: Pending, roles: Collection[str] = tuple(PORTS)) -> None:
        """Tell these nodes to abort a request, and wait for its end. Raises LabError when a node does not take it."""
        for role in roles:
            answer = self._client.post(role, "/abort_request", {"rid": pending.rid})
            if answer.status != 200:
                raise LabError(f"{role} answered {answer.status} to an abort: {answer.body}")
        self.end(pending, ABORTED)

    def kill(self, role: str, pending: Pending) -> None:
        """Kill the scheduler of a role (rank 0) as the kernel does it, and wait for the end of a request."""
        os.kill(self._pid(role), signal.SIGKILL)
        self.end(pending, KILLED)

    def wait_for(self, role: str, kind: str, pending: Pending, count: int = 1) -> None:
        """Wait until this role's memory has said this of a request so often. Raises LabError when it does not."""
        self._wait(
            lambda: self.count(role, kind, pending) >= count, f"{count} times {kind!r} of {pending.rid} on {role}"
        )

    def count(self, role: str, kind: str, pending: Pending) -> int:
        """How often this role's memory has said this of a request so far; of several ranks, one is asked."""
        file = min(self._truth.glob(f"{role}-*.jsonl"), default=None)
        # As the plugin writes it, so that nothing has to be decoded; before a transfer it knows the room alone.
        begins, names = f'{{"kind": "{kind}"', f'"rid": "{pending.rid}"'
        if kind == "snapshot":
            names = f'"room": {room_of(pending.rid)},'
        lines = file.read_text().splitlines() if file else []
        return sum(line.startswith(begins) and names in line for line in lines)

    def _pid(self, role: str) -> int:
        return int(min(self._truth.glob(f"{role}-*.jsonl")).stem.rpartition("-")[2])

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not until():
            if time.monotonic() > deadline:
                raise LabError(f"waited {_PATIENCE_SECONDS:.0f} s in vain for {what}")
            time.sleep(_POLL_SECONDS)
