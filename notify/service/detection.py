"""The detection loop: one pass after another on a thread of its own, whatever a pass runs into."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import structlog

from notify.answers import Detection
from notify.times import iso

LONGEST_PAUSE = 30.0
"""Seconds between two passes after many failures in a row: the pause doubles with each up to this."""


class Report(Protocol):
    """What the loop reads of a pass: how many responses it judged, and how many verdicts changed."""

    @property
    def judged(self) -> int:
        """Responses looked at."""

    @property
    def changed(self) -> int:
        """Responses whose stored verdict is another one now."""


class DetectionLoop:
    """Runs `run_once` every `every` seconds until stopped.

    A pass that raises is logged and counted, and the next one is tried: evidence must still be received, and answers
    say that they are not complete, while detection is in trouble.
    """

    def __init__(self, run_once: Callable[[], Report], every: float) -> None:
        self._run_once = run_once
        self._every = every
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._passes = 0
        self._failures = 0
        self._last_failure: str | None = None
        self._last_finished: datetime | None = None
        self._log = structlog.get_logger("detection")
        self._thread = threading.Thread(target=self._run, name="detection", daemon=True)

    def start(self) -> None:
        """Begin; the first pass runs at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end, and wait until the pass that is under way has ended."""
        self._stopping.set()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    def state(self) -> Detection:
        """Counts since the service started."""
        with self._lock:
            return Detection(
                passes=self._passes,
                failures=self._failures,
                last_failure=self._last_failure,
                last_finished=iso(self._last_finished) if self._last_finished else None,
            )

    def _run(self) -> None:
        in_a_row = 0
        while not self._stopping.is_set():
            in_a_row = 0 if self._one_pass() else in_a_row + 1
            pause = self._every if not in_a_row else min(self._every * 2**in_a_row, max(LONGEST_PAUSE, self._every))
            self._stopping.wait(pause)

    def _one_pass(self) -> bool:
        try:
            report = self._run_once()
        except Exception as error:  # noqa: BLE001  # nothing that a pass runs into may end the service
            with self._lock:
                self._failures += 1
                self._last_failure = f"{type(error).__name__}: {str(error).strip()[:300]}"
            self._log.error("detection pass failed", error=self._last_failure, exc_info=True)
            return False
        with self._lock:
            self._passes += 1
            self._last_finished = datetime.now(UTC)
        if report.changed:
            self._log.info("judged", responses=report.judged, changed=report.changed)
        return True
