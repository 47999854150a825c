"""The agent of pagewitness beside a lab pair: outside its network namespace, only the ring folder between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import TracebackType

from lab.engine.errors import LabError
from lab.engine.paths import REPOSITORY
from lab.engine.servers import EMITTER_PREFIX, RunFolder

_DRAIN_SECONDS = 30.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.1
_TAIL_LINES = 10


class AgentProcess:
    """`pagewitness-hooks agent`, from construction until `stop`. A context manager.

    `token` is that of the receiver at `url` for the emitters of the lab (`EMITTER_PREFIX`).
    """

    def __init__(self, run: RunFolder, url: str, token: str, heartbeat_seconds: float = 1.0) -> None:
        self._run = run
        self._log = run.root / "agent.log"
        self._token_file = run.root / "agent.token"
        self._token_file.touch(mode=0o600)
        self._token_file.write_text(token + "\n")
        command = [
            sys.executable, "-m", "engine_hooks.cli", "agent",
            "--ring-dir", str(run.rings), "--spool-dir", str(run.spool),
            "--url", url, "--token-file", str(self._token_file),
        ]  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"],
            "PAGEWITNESS_EMITTER": EMITTER_PREFIX,
            "PAGEWITNESS_HEARTBEAT_SECONDS": str(heartbeat_seconds),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_drained(self) -> None:
        """Wait until every ring is drained to its end and gone; the processes that wrote them must have ended.

        Raises LabError when the agent dies or does not get there.
        """
        deadline = time.monotonic() + _DRAIN_SECONDS
        while rings := sorted(path.name for path in self._run.rings.glob("*.ring*")):
            if self._process.poll() is not None:
                raise LabError(f"the agent ended with {self._process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise LabError(f"the agent did not drain {', '.join(rings)}; the end of its log:\n{self.tail()}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Ask it to end, and wait. Raises LabError unless it ended well. Safe to call twice."""
        self._process.terminate()
        self._token_file.unlink(missing_ok=True)
        try:
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise LabError(f"the agent did not end when asked; the end of its log:\n{self.tail()}") from None
        if code != 0:
            raise LabError(f"the agent ended with {code}; the end of its log:\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        elif self._process.poll() is None:
            self._process.kill()
            self._process.wait()
