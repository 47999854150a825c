"""One process a data directory: a lock that says who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

NAME = "store.lock"


class StoreBusy(Exception):
    """Somebody else has the store open. The text names them: process id, since when, and their command line."""


class DirectoryLock:
    """Holds a data directory for this process, until it is released or the process is gone, however it ends.

    The lock is the kernel's, on an open file; what the file says is only there to name the holder.
    """

    def __init__(self, data_dir: Path) -> None:
        """Take the lock. Raises StoreBusy if another holds it, OSError if the directory cannot be used."""
        self._path = data_dir / NAME
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = self._read()
            os.close(self._fd)
            raise StoreBusy(f"{data_dir} is in use by {who}: stop it, or choose another data directory") from None
        holder = {
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": shlex.join(sys.orig_argv),
        }
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps(holder).encode(), 0)

    def release(self) -> None:
        """Give the directory up. The file stays, empty: to delete it would let two processes lock two files."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def _read(self) -> str:
        try:
            holder = json.loads(os.pread(self._fd, 65536, 0))
            return f"process {holder['pid']} since {holder['since']} ({holder['command']})"
        except (ValueError, KeyError, TypeError):
            return f"a process that has not said who it is yet (see {self._path})"
