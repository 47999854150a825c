"""Puts the hooks on the engine through its own registry, and finds out which of them are really on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine_hooks.sglang_plugin.boundary import Boundary, Hook
from engine_hooks.sglang_plugin.table import best_fit, is_known, parse_version, relevant, targets_for, unsupplied
from engine_hooks.sglang_plugin.targets import Target, problem

log = logging.getLogger(__name__)

UNKNOWN_VERSION = "version.unknown"
"""Stands among the missing hooks of an engine that the table was not read in: its hooks match by signature alone, and
nobody has looked whether the functions still mean the same. It is no fact, so no rule goes blind by it."""


@dataclass(slots=True)
class Attachment:
    """What became of each target. `registered` is what the engine was asked for, `refused` what was left alone.

    `version` is the engine's own text; `tier` decides which facts are expected of the node ('' = those of its rows).
    """

    registered: list[Target] = field(default_factory=list)
    refused: list[Target] = field(default_factory=list)
    hooks: list[tuple[Target, Hook]] = field(default_factory=list)
    is_patched: Callable[[str], bool] = lambda path: True
    switched_off: set[str] = field(default_factory=set)
    version: str = ""
    tier: str = ""

    def attached(self, backend: str) -> list[str]:
        """Names of the hook points that are on, on a node with this transfer backend."""
        return sorted(row.name for row in relevant(tuple(self.registered), backend) if self._is_on(row))

    def missing(self, backend: str) -> list[str]:
        """Names of the hook points that should be on and are not, and of the facts that have no supplier: for want of
        such a hook, or because no hook point of this engine version supplies them.

        A rule looks for the facts that it needs (`page.read`, `transfer.queued`) in this list.
        """
        refused = set(self.refused)
        rows = (*self.registered, *self.refused)
        off = [row for row in relevant(rows, backend) if row in refused or not self._is_on(row)]
        words = {row.name for row in off} | {fact for row in off for fact in row.facts}
        if self.tier:
            words |= unsupplied(rows, self.tier, backend)
        if self.version and not is_known(self.version):
            words.add(UNKNOWN_VERSION)
        return sorted(words)

    def report(self, backend: str) -> None:
        """Say in the engine's log what is on and what is not."""
        missing = self.missing(backend)
        said = (len(self.attached(backend)), self.version, self.tier)
        log.info("pagewitness: %d hook points are on in SGLang %s, %s tier", *said)
        if missing:
            log.warning("pagewitness: this node does not record everything; missing: %s", ", ".join(missing))

    def _is_on(self, row: Target) -> bool:
        return self.is_patched(row.path) and row.name not in self.switched_off


def attach_version(
    version: str, tier: str, handlers: Mapping[str, Any], boundary: Boundary, registry: Any
) -> Attachment:
    """`attach` the rows for an engine that says this of its version: those of the table, or those that fit it best."""
    targets = rows_for(version, tier)
    result = attach(targets, handlers, boundary, registry)
    result.version, result.tier = version, tier
    return result


def rows_for(version: str, tier: str) -> tuple[Target, ...]:
    """The rows for the engine in this process, which says this of its version."""
    if is_known(version):
        return targets_for(parse_version(version), tier)
    return best_fit(lambda row: not problem(row), tier)


def attach(targets: Iterable[Target], handlers: Mapping[str, Any], boundary: Boundary, registry: Any) -> Attachment:
    """Register a guarded handler for each target that passes its check.

    `handlers` maps the first part of a target's `handler` to the object with the methods; `registry` is the engine's
    `hook_registry` module. The engine applies the hooks when all plugins are loaded.
    """
    result = Attachment(switched_off=boundary.switched_off)
    kinds = {"before": registry.HookType.BEFORE, "after": registry.HookType.AFTER}
    for target in targets:
        part, _, method = target.handler.partition(".")
        fault = problem(target)
        if fault:
            result.refused.append(target)
            log.debug("pagewitness: %s is not hooked: %s", target.name, fault)
            continue
        hook = boundary.guard(target.name, getattr(handlers[part], method))
        registry.HookRegistry.register(target.path, hook, kinds[target.when])
        result.registered.append(target)
        result.hooks.append((target, hook))
    patched = registry.HookRegistry._patched  # the only place where the engine says what it applied
    result.is_patched = lambda path: path in patched
    return result
