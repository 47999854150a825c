"""The kill switch at run time: a file. While it is there, no hook runs.

There is no thread to watch it and no system call in each hook: the boundary compares a clock with `next_look`, and only
the first hook after that time looks for the file. So the switch works about a second after the next hook call.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import monotonic

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""The least time between two looks."""


class KillFile:
    """Looks for the file at `path`; calls `stop` once it is there and `go` once it is gone again.

    Hooks read `next_look` (monotonic seconds) and `still` at every call. Hooks of several threads may look: one at a
    time does. A file that cannot be looked for (no permission, say) is not there.
    """

    __slots__ = ("_go", "_looking", "_path", "_stop", "next_look", "still")

    def __init__(self, path: Path, stop: Callable[[], None], go: Callable[[], None]) -> None:
        self._path = os.fspath(path)
        self._stop = stop
        self._go = go
        self._looking = Lock()
        self.next_look = 0.0
        self.still = False

    def look(self) -> None:
        """Look now, and call `stop` or `go` if that changes anything. Never raises."""
        self.next_look = monotonic() + LOOK_SECONDS
        if not self._looking.acquire(blocking=False):
            return
        try:
            there = os.path.exists(self._path)  # noqa: PTH110 - a Path would be made anew, and slower
            if there and not self.still:
                self.still = True
                self._stop()
            elif self.still and not there:
                self._go()
                self.still = False
        except Exception as error:  # noqa: BLE001 - the engine must not notice
            self.still = True
            self.next_look = math.inf
            log.error(  # noqa: TRY400 - the type says enough, and a message can hold anything
                "pagewitness: %s at the kill file: the hooks stand still until the engine restarts",
                type(error).__name__,
            )
        finally:
            self._looking.release()
