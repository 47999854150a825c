"""Puts the hooks on the engine through its own registry, and finds out which of them are really on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine_hooks.sglang_plugin.boundary import Boundary
from engine_hooks.sglang_plugin.targets import Target, TargetError, check

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Attachment:
    """What became of each target. `registered` is what the engine was asked for, `refused` what was left alone."""

    registered: list[Target] = field(default_factory=list)
    refused: list[Target] = field(default_factory=list)
    is_patched: Callable[[str], bool] = lambda path: True
    switched_off: set[str] = field(default_factory=set)

    def attached(self, backend: str) -> list[str]:
        """Names of the hook points that are on, on a node with this transfer backend."""
        return sorted(row.name for row in self._relevant(self.registered, backend) if self._is_on(row))

    def missing(self, backend: str) -> list[str]:
        """Names of the hook points that should be on and are not, and of the facts that have no supplier for it.

        A rule looks for the facts that it needs (`page.read`, `transfer.queued`) in this list.
        """
        refused = set(self.refused)
        rows = [*self.registered, *self.refused]
        off = [row for row in self._relevant(rows, backend) if row in refused or not self._is_on(row)]
        return sorted({row.name for row in off} | {fact for row in off for fact in row.facts})

    def _is_on(self, row: Target) -> bool:
        return self.is_patched(row.path) and row.name not in self.switched_off

    @staticmethod
    def _relevant(rows: Iterable[Target], backend: str) -> list[Target]:
        backend = "mooncake" if backend == "ascend" else backend  # its classes derive from Mooncake's
        return [row for row in rows if row.backend in ("", backend)]


def attach(targets: Iterable[Target], handlers: Mapping[str, Any], boundary: Boundary, registry: Any) -> Attachment:
    """Register a guarded handler for each target that passes its check.

    `handlers` maps the first part of a target's `handler` to the object with the methods; `registry` is the engine's
    `hook_registry` module. The engine applies the hooks when all plugins are loaded.
    """
    result = Attachment(switched_off=boundary.switched_off)
    kinds = {"before": registry.HookType.BEFORE, "after": registry.HookType.AFTER}
    for target in targets:
        part, _, method = target.handler.partition(".")
        try:
            check(target)
        except TargetError as error:
            result.refused.append(target)
            log.debug("pagewitness: %s is not hooked: %s", target.name, error)
            continue
        except Exception as error:  # noqa: BLE001 - importing a part of the engine can fail in any way
            result.refused.append(target)
            log.debug("pagewitness: %s is not hooked: %s on import", target.name, type(error).__name__)
            continue
        hook = boundary.guard(target.name, getattr(handlers[part], method))
        registry.HookRegistry.register(target.path, hook, kinds[target.when])
        result.registered.append(target)
    patched = registry.HookRegistry._patched  # the only place where the engine says what it applied
    result.is_patched = lambda path: path in patched
    return result
