"""SGLang plugin of the benchmarks: thread CPU time inside each hook of pagewitness, and inside `run_batch`.

`$LAB_OVERHEAD_DIR/control` holds one byte, the mode, which the benchmark writes between two blocks of requests. Each
scheduler process appends one JSON line to `<role>.jsonl` there when it notices that a block is over. The clock is
CLOCK_THREAD_CPUTIME_ID: what another process or thread does meanwhile does not count, but for the caches it empties.

The engine imports all plugins before it calls any, and calls this one first, so every hook is wrapped with its boundary
inside, and the wrapper around `run_batch` lies below all hooks of pagewitness.
"""

from __future__ import annotations

import inspect
import json
import mmap
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import thread_time_ns
from typing import Any

from engine_hooks.recorder import Recorder
from engine_hooks.sglang_plugin import boundary

DIR_SETTING = "LAB_OVERHEAD_DIR"
OFF, ON, HOOKS, FACTS = range(4)
"""The modes: hooks are not called; are called; are called and measured; are called, and what records is measured."""

RUN_BATCH = "sglang.srt.managers.scheduler.Scheduler.run_batch"
_NO_FACTS = frozenset({"hook_error", "close", "node_config"})


class Meter:
    """What one block has cost so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with (folder / "control").open("r+b") as file:
            self.control = mmap.mmap(file.fileno(), 1)
        self.mode = ON
        self.role = "unknown"
        self._plain = {
            name: function
            for base in reversed(Recorder.__mro__)
            for name, function in vars(base).items()
            if inspect.isfunction(function) and not name.startswith("_") and name not in _NO_FACTS
        }
        self._reset()

    def _reset(self) -> None:
        self.hooks: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # name -> calls, ns
        self.facts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.run_batch: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # mode and size -> calls, ns
        self.steps: list[tuple[str, int, int]] = []  # mode and size, ns of hooks from this step to the next, ns of it
        self.spent = self.calls = 0  # since the last step began
        self._step: tuple[str, int] | None = None

    def change(self) -> None:
        """The benchmark has begun another block: write down the last one."""
        if self.mode in (HOOKS, FACTS):
            line = {
                "mode": self.mode, "hooks": self.hooks, "facts": self.facts, "run_batch": self.run_batch,
                "steps": self.steps,
            }  # fmt: skip
            with (self._folder / f"{self.role}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        self._reset()
        self.mode = self.control[0]
        for name, function in self._plain.items():
            setattr(Recorder, name, self._measured(name, function) if self.mode == FACTS else function)

    def _measured(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        count = self.facts[name]

        def measured(*args: Any, **kwargs: Any) -> Any:
            first = thread_time_ns()
            began = thread_time_ns()
            result = function(*args, **kwargs)
            count[1] += thread_time_ns() - began - (began - first)
            count[0] += 1
            return result

        return measured

    def step(self, batch: Any) -> None:
        """A forward begins: what hooks took since the one before began is that one's."""
        if self._step is not None:
            self.steps.append((self._step[0], self.spent, self._step[1]))
        self._step = None
        self.spent = 0

    def forward(self, batch: Any, spent: int) -> None:
        """A forward is over."""
        kind = "decode" if batch.forward_mode.is_decode() else "extend" if batch.forward_mode.is_extend() else "other"
        name = f"{kind} {len(batch.reqs)}"
        count = self.run_batch[name]
        count[0] += 1
        count[1] += spent
        self._step = (name, spent)


def _wrap_boundary(meter: Meter) -> None:
    guard = boundary.Boundary.guard
    control = meter.control

    def measuring(self: boundary.Boundary, name: str, hook: boundary.Hook) -> boundary.Hook:
        guarded = guard(self, name, hook)
        streams = "stream_output" in name
        starts = name.startswith("Scheduler.__init__")

        def timed(*args: Any, **kwargs: Any) -> None:
            mode = control[0]
            if mode != meter.mode:
                meter.change()
            if mode == HOOKS:
                first = thread_time_ns()
                began = thread_time_ns()
                guarded(*args, **kwargs)
                spent = thread_time_ns() - began - (began - first)  # less what reading the clock took here and now
                # between two requests the engine polls with an empty list: no cost of a request
                count = meter.hooks["idle" if streams and not args[1] else name]
                count[0] += 1
                count[1] += spent
                meter.spent += spent
            elif mode != OFF:
                guarded(*args, **kwargs)
            if starts:
                meter.role = str(args[1].disaggregation_mode.value)

        return timed

    boundary.Boundary.guard = measuring  # type: ignore[method-assign]


_meter: Meter | None = None


def register() -> None:
    """Wrap `run_batch`, below what other plugins hang on it."""
    if _meter is None:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    meter = _meter

    def around(original: Callable[..., Any], scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        if meter.control[0] != HOOKS:
            return original(scheduler, batch, *args, **kwargs)
        meter.step(batch)
        began = thread_time_ns()
        result = original(scheduler, batch, *args, **kwargs)
        spent = thread_time_ns() - began
        meter.forward(batch, spent - meter.spent)  # hooks that run inside are no part of it
        return result

    HookRegistry.register(RUN_BATCH, around, HookType.AROUND)


if os.environ.get(DIR_SETTING):
    _meter = Meter(Path(os.environ[DIR_SETTING]))
    _wrap_boundary(_meter)
