"""A network namespace that has nothing but `lo`, and everything that runs in it.

The KV transfer backend listens on 0.0.0.0 whatever it is told, so a pair must never share a network with anything.
The name of a namespace tells whose it is; what a dead owner left behind is ended and removed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

from lab.engine.errors import LabError

RUN_DIR = Path("/run/netns")

DETACHED = "detached"
"""Owner of a namespace that outlives the command which made it: only `down` removes it."""

_POLL_SECONDS = 0.05


def _started(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot, which makes a pid unique; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()[19]


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


class Namespace:
    """One namespace by name. Makes nothing before `create`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def of(cls, lab_root: Path, *, detached: bool = False) -> Namespace:
        """The namespace of this process for this lab folder, or the detached one of the folder."""
        pid = os.getpid()
        owner = DETACHED if detached else f"{pid}-{_started(pid)}"
        return cls(f"{_prefix(lab_root)}{owner}")

    @property
    def exists(self) -> bool:
        """Whether the kernel has it."""
        return (RUN_DIR / self.name).exists()

    @property
    def scratch(self) -> Path:
        """Folder for temporary files of what runs inside. Its path is short: a unix socket's has 107 characters."""
        return Path(tempfile.gettempdir()) / self.name

    def create(self) -> None:
        """Make it, with `lo` up, and its scratch folder. Raises LabError without root or without namespaces."""
        if os.geteuid() != 0:
            raise LabError("the engine pair needs a network namespace of its own, and making one needs root")
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(mode=0o700)

    def command(self, *argv: str) -> list[str]:
        """The command line that runs `argv` inside."""
        return ["ip", "netns", "exec", self.name, *argv]

    def pids(self) -> list[int]:
        """Every process inside."""
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]

    def end_processes(self, patience_seconds: float = 3.0) -> None:
        """Ask every process inside to end, then kill what is left. Raises LabError if one survives that."""
        self._signal(signal.SIGTERM)
        if self._empty_within(patience_seconds):
            return
        self._signal(signal.SIGKILL)
        if not self._empty_within(10.0):
            raise LabError(f"processes {self.pids()} of namespace {self.name} survived SIGKILL")

    def remove(self) -> None:
        """End what runs inside, then remove namespace and scratch folder. Nothing happens if there is none."""
        if not self.exists:
            return
        self.end_processes()
        _ip("netns", "del", self.name)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _empty_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.pids():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _prefix(lab_root: Path) -> str:
    return f"pagewitness-{zlib.crc32(os.fsencode(lab_root)):08x}-"


def remove_stale(lab_root: Path) -> list[str]:
    """Remove the namespaces of this lab folder whose owner is gone; returns their names."""
    removed = []
    owner = re.compile(re.escape(_prefix(lab_root)) + r"(\d+)-(\d+)")
    for entry in sorted(RUN_DIR.iterdir()) if RUN_DIR.exists() else []:
        match = owner.fullmatch(entry.name)
        if match and _started(int(match[1])) != match[2]:
            Namespace(entry.name).remove()
            removed.append(entry.name)
    return removed


def listening_ports(pid: int) -> set[int]:
    """TCP ports on which anything listens in the network namespace of this process."""
    ports = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for fields in (line.split() for line in lines):
            if fields[3] == "0A":  # TCP_LISTEN
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
