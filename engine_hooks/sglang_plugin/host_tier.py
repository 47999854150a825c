"""Host tier: KV that goes to host memory and comes back, from a cache there or from the backup of a retracted request.

All of it is rare: a node without HiCache, and a request that is not retracted, come by none of these hooks. Copies
between the tiers run behind the hooks, in the order of the device's streams: what reads the pages later waits for them.
"""

from __future__ import annotations

import weakref
from typing import Any

from engine_hooks.sglang_plugin.cache_keys import REQUEST_ONLY
from engine_hooks.sglang_plugin.legs import Legs, LegState


class HostTier:
    """Hooks on loads and stores."""

    def __init__(self, legs: Legs) -> None:
        self._legs = legs
        self._publisher: weakref.ref[LegState] | None = None

    def publishing(self, state: LegState) -> None:
        """Pages of this leg enter the prefix cache now; what the cache writes through meanwhile is theirs."""
        self._publisher = weakref.ref(state)

    # ------------------------------------------------------------------ a cache in host memory

    def after_load_back(self, result: Any, cache: Any, params: Any, *_: Any, **__: Any) -> None:
        """`<Cache>.init_load_back`: a prefix that only host memory has comes to the device; the result has how much,
        as a number (0.5.21 on) or as its slots."""
        req = params.req
        if result is None or req is None:
            return
        tokens = result[0] if isinstance(result[0], int) else len(result[0])
        state = self._legs.admit(req)
        if state is None or not tokens:
            return
        self._share(state, "load", tokens, self._legs.limits.key_composition)
        if self._legs.limits.role == "decode":  # the prefix was promised to prefill before: the load is its end
            start = state.prefix_tokens - tokens
        else:
            known = getattr(req, "prefix_len", None)
            start = len(req.prefix_indices) if known is None else known
        self._loaded(state, max(0, start), tokens)

    def after_write_through(self, result: Any, cache: Any, what: Any, write_back: bool = False, **_: Any) -> None:
        """`<Cache>.write_backup`, later `_execute_and_commit_kv_backup`: cached pages are copied to host memory, and
        the result has how many tokens. A `write_back` makes room for somebody else, and belongs to no leg here."""
        state = None if self._publisher is None or write_back else self._publisher()
        if state is not None and result and not state.over:
            self._share(state, "store", int(result), self._legs.limits.key_composition)

    # ------------------------------------------------------------------ the backup of a retracted request

    def after_offload(self, result: Any, req: Any, *_: Any, **__: Any) -> None:
        """`Req.offload_kv_cache`: all but the last token's KV is in host memory, for this request alone."""
        state = self._legs.find(req)
        if state is not None:
            self._share(state, "store", req.seqlen - 1, REQUEST_ONLY)

    def after_backup(self, result: Any, cache: Any, req: Any, *_: Any, **__: Any) -> None:
        """`UnifiedRadixCache.backup_kv_cache`: the same in the host pool, unless there was no room."""
        if result is not None:
            self.after_offload(result, req)

    def after_reload(self, result: Any, req: Any, *_: Any, **__: Any) -> None:
        """`Req.load_kv_cache`: the request, which is another leg now, has its KV back."""
        state = self._legs.admit(req)
        if state is not None:
            self._share(state, "load", req.seqlen - 1, REQUEST_ONLY)
            self._loaded(state, 0, req.seqlen - 1)

    def after_restore(self, result: Any, cache: Any, req: Any, *_: Any, **__: Any) -> None:
        """`UnifiedRadixCache.restore_kv_cache`: the same from the host pool."""
        self.after_reload(result, req)

    def _share(self, state: LegState, operation: str, tokens: int, composition: bytes) -> None:
        recorder = self._legs.recorder
        if recorder is not None:
            recorder.share(
                state.leg,
                operation=operation,
                tokens=tokens,
                key_composition=composition,
                storage="host",
                namespace=state.namespace,
            )

    def _loaded(self, state: LegState, start: int, tokens: int) -> None:
        recorder = self._legs.recorder
        if recorder is not None:
            recorder.write(state.leg, purpose="load", start=start, end=start + tokens)
