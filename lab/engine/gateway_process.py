"""The lab's gateway beside a pair: inside its network namespace, reached through a unix socket, which crosses that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

from lab.engine import keys
from lab.engine.errors import LabError
from lab.engine.pair import Pair
from lab.engine.paths import REPOSITORY
from lab.engine.servers import EMITTER_PREFIX, RunFolder

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1


class GatewayProcess:
    """`lab.engine.gateway_app` of a pair that is up. A context manager: listening on entry, ended on exit.

    It records into the rings of the run. Raises LabError when it does not come up.
    """

    def __init__(self, pair: Pair, run: RunFolder) -> None:
        self._pair = pair
        self._run = run
        self._socket: Path = pair.namespace.scratch / "gateway.sock"

    def client(self, key: str) -> httpx.Client:
        """A client of the gateway with this API key."""
        transport = httpx.HTTPTransport(uds=str(self._socket))
        headers = {"authorization": f"Bearer {key}"}
        return httpx.Client(transport=transport, base_url="http://gateway", headers=headers, timeout=60.0)

    def __enter__(self) -> GatewayProcess:
        command = self._pair.namespace.command(sys.executable, "-m", "lab.engine.gateway_app", str(self._socket))
        environment = {
            "PATH": os.environ["PATH"],
            "PAGEWITNESS_RING_DIR": str(self._run.rings),
            "PAGEWITNESS_RING_BYTES": "1M",
            "PAGEWITNESS_EMITTER": EMITTER_PREFIX,
            "PAGEWITNESS_PSEUDONYM_KEYS": keys.PSEUDONYM_KEY,
            "PAGEWITNESS_MAC_KEYS": keys.MAC_KEY,
            "PAGEWITNESS_EVIDENCE_KEY": keys.EVIDENCE_KEY,
        }
        with self._run.log("gateway").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end()
                raise LabError(f"the gateway did not come up: {self._run.log('gateway').read_text(errors='replace')}")
            time.sleep(_POLL_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait()
