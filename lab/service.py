"""The real service as a process of its own, for demos and tests: `pagewitness serve`, and the commands that ask it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from collector.tokens import mint_token
from lab.engine import keys
from lab.engine.errors import LabError
from notify.answers import StatusAnswer
from notify.client import Client, Service
from notify.service.service_file import NAME, ServiceFile

LAB_KEYS = {"PAGEWITNESS_PSEUDONYM_KEYS": keys.PSEUDONYM_KEY, "PAGEWITNESS_EVIDENCE_KEY": keys.EVIDENCE_KEY}

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05


class ServiceProcess:
    """`pagewitness serve` on `data_dir`, on a free port. A context manager: up on entry, drained on exit.

    Of this process's own settings (PAGEWITNESS_*) it inherits none; `settings` are what it gets.
    """

    def __init__(
        self, data_dir: Path, *, detect_every: float = 0.25, settings: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self._environment = environment(LAB_KEYS if settings is None else settings)
        self._detect_every = detect_every
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(timeout=60.0, trust_env=False, verify=False)  # plain HTTP, this machine

    def start(self) -> ServiceFile:
        """Start it and wait until it can take evidence. Raises LabError with the end of its log if it does not."""
        command = [sys.executable, "-m", "pagewitness", "serve", "--data-dir", str(self.data_dir), "--port", "0"]
        command += ["--detect-every", str(self._detect_every)]
        (self.data_dir / NAME).unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise LabError(f"the service ended while starting (exit {self._process.returncode}):\n{self.tail()}")
            file = ServiceFile.read(self.data_dir)
            if file is not None and file.pid == self._process.pid and self._ready(file.url):
                return file
            time.sleep(_POLL_SECONDS)
        self.stop()
        raise LabError(f"the service was not ready after {_START_SECONDS:.0f} s:\n{self.tail()}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by this signal, wait, and give its exit status. Raises LabError if it had to be killed."""
        if self._process is None:
            raise LabError("the service was not started")
        self._process.send_signal(number)
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise LabError(f"the service did not end within {_STOP_SECONDS:.0f} s of being told to") from None

    def __enter__(self) -> ServiceProcess:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()

    @property
    def file(self) -> ServiceFile:
        """Where it listens, and its responder token. Raises LabError if it does not run."""
        file = ServiceFile.read(self.data_dir)
        if file is None:
            raise LabError(f"no service runs on {self.data_dir}")
        return file

    def mint(self, prefix: str) -> str:
        """A token for emitters of this prefix, made as an operator makes one."""
        return mint_token(self.data_dir, prefix)

    def post(self, body: bytes, token: str, headers: Mapping[str, str]) -> httpx.Response:
        """Post one export request to the receiver, with the headers of its content."""
        url = f"{self.file.url}/v1/traces"
        return self._http.post(url, content=body, headers={**headers, "Authorization": f"Bearer {token}"})

    def client(self) -> Client:
        """A client of its answers. A context manager."""
        return Client(Service(self.file.url, self.file.token, "it is the lab's own"))

    def status(self) -> StatusAnswer:
        """How far evidence and detection came."""
        with self.client() as client:
            return StatusAnswer.model_validate(client.get("status"))

    def notify(self, *arguments: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
        """Run `notify` as a person would, and wait for it."""
        command = [sys.executable, "-m", "notify", *arguments]
        values = environment({"PAGEWITNESS_DATA_DIR": str(self.data_dir), "COLUMNS": str(columns)})
        return subprocess.run(command, env=values, capture_output=True, text=True, check=False)

    def _ready(self, url: str) -> bool:
        try:
            return self._http.get(f"{url}/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without any setting of ours, and then these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAGEWITNESS_")}
    return inherited | dict(settings)
