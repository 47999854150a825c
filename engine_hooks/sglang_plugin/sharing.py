"""Sharing: a leg reuses what a prefix cache holds, or its own pages enter the cache.

In the control tier only a match is a fact, and only one that found something: an ordinary request that reuses nothing
pays nothing. What a leg publishes follows there from its release (the pages that it held), its admission (the
namespace) and the node's configuration (that there is a cache); the exact tier says it outright.
"""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.legs import Legs, LegState


class Sharing:
    """Called by the hooks on steps, transfers and releases; it hangs on no place of the engine by itself."""

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def matched(self, state: LegState, tokens: int) -> None:
        """The leg starts with this many tokens that a cache of this node has."""
        self._record(state, "match", tokens)

    def published(self, state: LegState, req: Any, tokens: int) -> None:
        """The first tokens of the leg enter the cache, as many as fill whole pages."""
        if self._legs.limits.tier == "exact" and not getattr(req, "skip_radix_cache_insert", False):
            tokens -= tokens % self._legs.limits.page_size
            if tokens:
                self._record(state, "publish", tokens)

    def _record(self, state: LegState, operation: str, tokens: int) -> None:
        recorder = self._legs.recorder
        if recorder is not None:
            recorder.share(
                state.leg,
                operation=operation,
                tokens=tokens,
                key_composition=self._legs.limits.key_composition,
                namespace=state.namespace,
            )


def is_kept(arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether a call of `release_kv_cache` lets the cache keep the pages: `checkpoint` (0.5.22 on) or `is_insert`."""
    return bool(named.get("checkpoint", named.get("is_insert", arguments[0] if arguments else True)))
