"""What a scheduler is beyond what every leg needs: sizes that peers must agree on, components, protections.

All of it is read once, off objects and shapes; no number is taken from a device. What a version does not have is left
out of the configuration.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

_LAYOUT = (
    "layer_num", "start_layer", "head_num", "head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim",
    "index_head_dim", "page_size",
)  # fmt: skip
_ROOM_CHECK = "Metadata corruption detected - bootstrap_room mismatch"


def describe(scheduler: Any) -> dict[str, Any]:
    """The optional values of `Recorder.node_config` that are known of this scheduler, by name of its parameters."""
    readers: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("model_revision", lambda it: str(getattr(it.server_args, "revision", None) or "")),
        ("kv_layout", _kv_layout),
        ("components", _components),
        ("host_tokens", _host_tokens),
        ("slots", _slots),
        ("safety", _safety),
    )
    known: dict[str, Any] = {}
    for name, read in readers:
        try:
            known[name] = read(scheduler)
        except (AttributeError, ImportError, LookupError, TypeError, ValueError) as error:
            # An engine that is built otherwise: one word less in the configuration, not a node that records nothing.
            log.warning("pagewitness: %s of this engine cannot be read (%s)", name, type(error).__name__)
    return known


def canary_mode(scheduler: Any) -> str:
    """What `--kv-canary` is set to: `none`, `log` or `raise` (0.5.15 on; `none` before)."""
    mode = getattr(scheduler.server_args, "kv_canary", None) or "none"
    return str(getattr(mode, "value", mode))


def _kv_layout(scheduler: Any) -> str:
    pool = _pool(scheduler)
    sizes = ((name, getattr(pool, name, None)) for name in _LAYOUT)
    return " ".join([type(pool).__name__, *(f"{name}={size}" for name, size in sizes if isinstance(size, int))])


def _components(scheduler: Any) -> list[str]:
    pool, manager = _pool(scheduler), _manager(scheduler)
    held = {
        "index_k": getattr(pool, "index_k_with_scale_buffer", None) is not None,
        "draft": getattr(scheduler, "draft_worker", None) is not None,
        "swa": getattr(pool, "swa_kv_pool", None) is not None,
        "state": getattr(scheduler.req_to_token_pool, "mamba_pool", None) is not None,
        "host": bool(_host_tokens(scheduler)),
        "aux": getattr(scheduler, "disagg_metadata_buffers", None) is not None,
        "staging": bool(getattr(manager, "enable_staging", False)),
    }
    return ["kv", *(name for name, is_held in held.items() if is_held)]


def _host_tokens(scheduler: Any) -> int:
    controller = getattr(scheduler.tree_cache, "cache_controller", None)
    return int(getattr(getattr(controller, "mem_pool_host", None), "size", 0) or 0)


def _slots(scheduler: Any) -> int | None:
    buffers = getattr(scheduler, "disagg_metadata_buffers", None)
    return None if buffers is None else int(buffers.bootstrap_room.shape[0])


def _safety(scheduler: Any) -> list[str]:
    """Words for the engine's own protections that are on here."""
    words = []
    queue = getattr(scheduler, "disagg_decode_transfer_queue", None)
    if queue is not None and _ROOM_CHECK in _constants(type(queue)._commit_transfer_to_req):
        words.append("room_check")
    if queue is not None and getattr(queue, "enable_deferred_kv_release", False):
        words.append(f"deferred_release={float(queue.deferred_kv_release_timeout):g}")
    canary = canary_mode(scheduler)
    if canary != "none":
        words.append(f"kv_canary={canary}")
    if getattr(getattr(scheduler, "disagg_metadata_buffers", None), "kv_checksum", None) is not None:
        words.append("kv_checksum")
    return words


def _constants(function: Any) -> tuple[Any, ...]:
    """The constants in a function's code, under whatever hooks are around it."""
    constants: tuple[Any, ...] = inspect.unwrap(function).__code__.co_consts
    return constants


def _pool(scheduler: Any) -> Any:
    return scheduler.token_to_kv_pool_allocator.get_kvcache()


def _manager(scheduler: Any) -> Any:
    """The KV transfer manager, on either side; None where there is none."""
    for name in ("disagg_decode_prealloc_queue", "disagg_prefill_bootstrap_queue"):
        queue = getattr(scheduler, name, None)
        if queue is not None:
            return getattr(queue, "kv_manager", None)
    return None
