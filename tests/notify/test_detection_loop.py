from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from structlog.testing import capture_logs

from notify.service.detection import DetectionLoop


@dataclass(frozen=True)
class Pass:
    judged: int = 0
    changed: int = 0


def run_until(passes: list[Callable[[], Pass]]) -> DetectionLoop:
    """A loop that was stopped while it ran the last of these passes; all of them have run."""
    done = threading.Event()
    calls = iter(passes)

    def run_once() -> Pass:
        call = next(calls, None)
        if call is None:
            done.set()
            return Pass()
        return call()

    loop = DetectionLoop(run_once, every=0.001)
    loop.start()
    assert done.wait(10)
    loop.stop()
    return loop


def failing() -> Pass:
    raise RuntimeError("the store went away")


def test_a_pass_that_fails_is_counted_and_the_next_one_runs() -> None:
    with capture_logs() as logs:
        state = run_until([failing, Pass, failing]).state()
    assert state.failures == 2
    assert state.passes >= 2
    assert state.last_failure == "RuntimeError: the store went away"
    assert [entry["event"] for entry in logs].count("detection pass failed") == 2


def test_stopping_waits_for_the_pass_that_is_under_way() -> None:
    started, may_end, ended = threading.Event(), threading.Event(), []

    def run_once() -> Pass:
        started.set()
        may_end.wait(10)
        ended.append(True)
        return Pass()

    loop = DetectionLoop(run_once, every=60)
    loop.start()
    assert started.wait(10)
    stopper = threading.Thread(target=loop.stop)
    stopper.start()
    assert not ended
    may_end.set()
    stopper.join(10)
    assert ended == [True]
    assert not loop.alive
