"""The wall between hooks and engine: nothing a hook does may reach the engine, whatever goes wrong in it.

SGLang lets an exception in a hook run on into the scheduler, and takes a hook's return value for a new argument list or
a new result. So every hook is wrapped here: exceptions stop at the wall and are counted, the result is always None (the
engine keeps its own), and a hook that keeps failing is switched off.

An error is logged by its type and the hook's name alone. Its message can hold client text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any

from engine_hooks.sglang_plugin.kill_file import KillFile

log = logging.getLogger(__name__)

Hook = Callable[..., None]
SWITCH_OFF_AFTER = 100
"""Failures in a row after which a hook is no longer called."""
LOG_FIRST = 5
"""How many failures of one hook are logged."""


class Boundary:
    """Wraps hooks. `on_error` gets the arguments of the call that failed; `on_switch_off` the hook's name.

    Both may raise: that is swallowed too. With a `kill_file`, which must be set before hooks are wrapped, no hook is
    called while it says that they stand still.
    """

    def __init__(self, on_error: Callable[[tuple[Any, ...]], None], on_switch_off: Callable[[str], None]) -> None:
        self._on_error = on_error
        self._on_switch_off = on_switch_off
        self._rebinders: dict[Hook, Callable[[Hook], None]] = {}
        self.kill_file: KillFile | None = None
        self.switched_off: set[str] = set()

    def guard(self, name: str, hook: Hook) -> Hook:
        """A function that calls `hook`, never raises an Exception and always returns None.

        What is not an Exception (KeyboardInterrupt, SystemExit) is the engine's own business and passes through.
        """
        failures = total = 0
        kill_file = self.kill_file

        def guarded(*args: Any, **kwargs: Any) -> None:
            nonlocal failures, total
            if failures >= SWITCH_OFF_AFTER:
                return
            if kill_file is not None:
                if monotonic() >= kill_file.next_look:
                    kill_file.look()
                if kill_file.still:
                    return
            try:
                hook(*args, **kwargs)
                if failures:
                    failures = 0
            except Exception as error:  # noqa: BLE001 - this is the wall
                failures += 1
                total += 1
                self._report(name, error, failures, total, (*args, *kwargs.values()))

        def rebind(other: Hook) -> None:
            nonlocal hook
            hook = other

        self._rebinders[guarded] = rebind
        return guarded

    def rebind(self, guarded: Hook, hook: Hook) -> None:
        """From now on `guarded`, which `guard` made, calls another hook. One that was switched off stays so."""
        self._rebinders[guarded](hook)

    def report_to(self, on_error: Callable[[tuple[Any, ...]], None], on_switch_off: Callable[[str], None]) -> None:
        """Others take the reports from now on."""
        self._on_error = on_error
        self._on_switch_off = on_switch_off

    def _report(self, name: str, error: Exception, failures: int, total: int, values: tuple[Any, ...]) -> None:
        try:
            if total <= LOG_FIRST:
                log.warning("pagewitness: hook %s failed with %s; the engine goes on", name, type(error).__name__)
            self._on_error(values)
            if failures >= SWITCH_OFF_AFTER:
                self.switched_off.add(name)
                log.error("pagewitness: hook %s failed %d times in a row and is off now", name, failures)
                self._on_switch_off(name)
        except Exception:  # noqa: BLE001 - nowhere left to report to, and the engine must go on
            pass
