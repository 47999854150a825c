"""One agent a directory: a lock that names its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class ClaimedError(Exception):
    """Another process works in this directory. The message names it."""


class Claim:
    """Holds `<directory>/.agent.lock` until closed or until the process ends.

    Makes the directory (0700) if it is not there. Raises ClaimedError, or OSError if it cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / ".agent.lock"
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise ClaimedError(
                f"{directory} is in use by the agent with process id {holder or 'unknown'}; "
                "stop that one, or give this one a directory of its own"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        """Let the directory go."""
        os.close(self._descriptor)
