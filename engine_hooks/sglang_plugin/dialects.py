"""The same thing under the names of the engine's versions, so that no hook has to ask which version it runs in."""

from __future__ import annotations

from typing import Any


def kv_of(request: Any) -> Any:
    """What a request holds of the KV pool: `holds_kv`, `req_pool_idx`, `kv_committed_len`, `kv_allocated_len`.

    From 0.5.19 that is the engine's own object; before, the numbers hang on the request itself.
    """
    kv = getattr(request, "kv", None)
    return kv if hasattr(kv, "holds_kv") else _OlderKv(request, kv)


class _OlderKv:
    """0.5.11 to 0.5.18. Up to 0.5.15 nothing hangs on `Req.kv`; then only the allocated length does."""

    __slots__ = ("_allocation", "_request")

    def __init__(self, request: Any, allocation: Any) -> None:
        self._request = request
        self._allocation = allocation

    @property
    def holds_kv(self) -> bool:
        return self.req_pool_idx is not None

    @property
    def req_pool_idx(self) -> Any:
        return self._request.req_pool_idx

    @property
    def kv_committed_len(self) -> int:
        return int(self._request.kv_committed_len)

    @property
    def kv_allocated_len(self) -> int:
        holder = self._request if self._allocation is None else self._allocation
        return int(holder.kv_allocated_len)


def row_of(request: Any) -> Any:
    """The row of a request in the table of slots: `kv_of(request).req_pool_idx`, fast where it is asked every step."""
    try:
        return request.kv.req_pool_idx
    except AttributeError:
        return request.req_pool_idx


def salt_of(request: Any) -> Any:
    """The cache salt that came with a request, or None.

    Before 0.5.18 the engine has no field for it: its OpenAI routes put the salt in front of the extra key. A gateway
    that sets a salt and no extra key is read all the same; with one, the salt cannot be told apart, and verifies not.
    """
    if hasattr(request, "cache_salt"):
        return request.cache_salt
    return getattr(request, "extra_key", None)


def ranks_of(scheduler: Any) -> Any:
    """Where a scheduler stands: `tp_rank`, `pp_rank`, `attn_tp_size`, and `dp_rank` where there are replicas.

    From 0.5.14 the engine keeps one description of that for the whole process, with the replica on the scheduler's own;
    0.5.13 has only the latter, and before that the scheduler has the numbers as attributes.
    """
    try:
        from sglang.srt.runtime_context import get_parallel
    except ImportError:
        return getattr(scheduler, "ps", scheduler)
    return get_parallel()
