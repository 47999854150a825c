"""SGLang plugin of the tests: while the file $LAB_SABOTAGE_FILE is there, every hook of pagewitness raises.

The engine imports all plugins before it calls any, so the boundary is in its hands before a hook is wrapped. Hooks are
not switched off for raising: each one goes on raising, at every call. And rings have only $LAB_SABOTAGE_RING_BYTES,
less than a setting allows: a few requests fill them.
"""

from __future__ import annotations

import os
from typing import Any

from engine_hooks import ring
from engine_hooks.sglang_plugin import boundary

FILE_SETTING = "LAB_SABOTAGE_FILE"
RING_SETTING = "LAB_SABOTAGE_RING_BYTES"


class SabotageError(Exception):
    """What a sabotaged hook raises."""


def _sabotage(file: str) -> None:
    guard = boundary.Boundary.guard

    def sabotaged(self: boundary.Boundary, name: str, hook: boundary.Hook) -> boundary.Hook:
        def maybe(*args: Any, **kwargs: Any) -> None:
            if os.path.exists(file):  # noqa: PTH110 - it stands in every hook
                raise SabotageError(name)
            hook(*args, **kwargs)

        return guard(self, name, maybe)

    boundary.Boundary.guard = sabotaged  # type: ignore[method-assign]
    boundary.SWITCH_OFF_AFTER = 1 << 60


def _shrink(capacity: int) -> None:
    create = ring.Ring.create

    def small(directory: Any, emitter: str, *_: Any, **__: Any) -> ring.Ring:
        return create(directory, emitter, capacity, lanes=2)

    ring.Ring.create = small  # type: ignore[method-assign]


def register() -> None:
    """Nothing is left to do when the engine calls its plugins."""


if os.environ.get(FILE_SETTING):
    _sabotage(os.environ[FILE_SETTING])
    _shrink(int(os.environ[RING_SETTING]))
