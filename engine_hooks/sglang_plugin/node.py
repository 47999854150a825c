"""The node: what its configuration is, recorded when the scheduler is built. The recording starts here."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

from engine_hooks.recorder import Recorder
from engine_hooks.ring_format import RingError
from engine_hooks.sglang_plugin.attach import Attachment
from engine_hooks.sglang_plugin.cache_keys import composition
from engine_hooks.sglang_plugin.described import canary_mode, describe
from engine_hooks.sglang_plugin.legs import Legs
from engine_hooks.sglang_plugin.place import Host, Place
from engine_hooks.sglang_plugin.release import shares_prefixes

log = logging.getLogger(__name__)

_ROLES = {"prefill": "prefill", "decode": "decode"}
_NO_HOST = Host()


class Node:
    """The hook after `Scheduler.__init__`. `open_recorder` makes the ring of an emitter with this name; `watch` is
    given the scheduler."""

    def __init__(
        self,
        legs: Legs,
        open_recorder: Callable[[str], Recorder],
        host: Host = _NO_HOST,
        watch: Callable[[Any], None] = lambda scheduler: None,
    ) -> None:
        self._legs = legs
        self._host = host
        self._watch = watch
        self._open_recorder = open_recorder
        self.attachment = Attachment()
        self.scheduler: Callable[[], Any] = lambda: None  # a weak reference, once it is built
        self._finalizer: Callable[[], Any] = lambda: None
        self._config: dict[str, Any] = {}
        self._unchecked: frozenset[str] = frozenset()

    def after_init(self, result: Any, scheduler: Any, *_: Any, **__: Any) -> None:
        """Read the configuration, open the ring, record `node.config`; from now on every hook records."""
        if self._legs.recorder is not None:
            return
        self.scheduler = weakref.ref(scheduler)
        arguments = scheduler.server_args
        role = _ROLES.get(scheduler.disaggregation_mode.value, "unified")
        place = Place.of(scheduler)
        limits = self._legs.limits
        limits.role = role
        limits.input_limit = int(scheduler.max_req_input_len)
        limits.context_tokens = int(scheduler.model_config.context_len)
        limits.page_size = int(scheduler.token_to_kv_pool_allocator.page_size)
        self._unchecked = _unchecked(arguments)
        limits.pool_pages = int(scheduler.max_total_num_tokens) // limits.page_size
        limits.allocator = weakref.ref(_kv_allocator(scheduler.token_to_kv_pool_allocator))
        limits.prefix_cache = shares_prefixes(scheduler.tree_cache)
        limits.key_composition = _key_composition()
        limits.canary = canary_mode(scheduler)
        self._legs.node_boot = place.node_id(self._legs.node_boot)
        pool = scheduler.token_to_kv_pool_allocator.get_kvcache()
        self._config = {
            "node_id": self._legs.node_boot,
            "role": role,
            "rank": place.rank,
            "ranks": place.ranks,
            "engine": "sglang",
            "engine_version": _engine_version(),
            "model": str(arguments.served_model_name or arguments.model_path),
            "context_tokens": limits.context_tokens,
            "pool_tokens": int(scheduler.max_total_num_tokens),
            "input_limit": limits.input_limit,
            "page_size": limits.page_size,
            "kv_dtype": str(getattr(pool, "dtype", "unknown")).removeprefix("torch."),
            "kv_layers": int(getattr(pool, "layer_num", 0)),
            "backend": "none" if role == "unified" else str(arguments.disaggregation_transfer_backend),
            "prefix_cache": limits.prefix_cache,
            "tier": limits.tier,
            "rank_names": [f"{self._host.prefix}/{role}-{arguments.port}-{label}" for label in place.labels()],
            "parallel": (int(arguments.tp_size), int(arguments.pp_size), int(arguments.dp_size)),
            "region": self._host.region,
            **describe(scheduler),
        }
        self._watch(scheduler)
        try:
            recorder = self._open_recorder(f"{role}-{arguments.port}-{place.label}")
        except RingError as error:  # its sentence says what to do; it is ours and holds no client text
            log.error("pagewitness: nothing is recorded in this process: %s", error)  # noqa: TRY400
            return
        # unlike atexit, it also runs in a child of multiprocessing
        self._finalizer = Finalize(None, recorder.close, exitpriority=100)
        self._legs.recorder = recorder
        self.record(recorder)

    def close(self) -> None:
        """End the boot: close its ring."""
        self._finalizer()

    def record(self, recorder: Recorder) -> None:
        """Record the configuration, with the hooks that are on now."""
        backend = self._config["backend"]
        attached = self.attachment.attached(backend)
        missing = sorted({*self.attachment.missing(backend), *self._unchecked})
        recorder.node_config(**self._config, hooks_attached=attached, hooks_missing=missing)
        self.attachment.report(backend)

    def hook_switched_off(self, name: str) -> None:
        """A hook is off: say so in a new configuration."""
        if self._legs.recorder is not None:
            self.record(self._legs.recorder)


def _unchecked(arguments: Any) -> frozenset[str]:
    """Facts that count as unsupplied with this configuration. Speculative decoding allocates through functions of its
    own, and that its verify steps are seen as reads was not proven on an engine: nothing there may pass for clean."""
    if getattr(arguments, "speculative_algorithm", None):
        return frozenset({"page.acquire", "page.read", "page.step"})
    return frozenset()


def _kv_allocator(allocator: Any) -> Any:
    """The allocator whose pages are the contract's `kv`: of a pool with a sliding window beside it, the full one."""
    return getattr(allocator, "full_attn_allocator", None) or allocator


def _key_composition() -> bytes:
    """What the prefix cache's key is made of; empty where this engine keeps it somewhere else."""
    try:
        return composition()
    except (ImportError, AttributeError) as error:
        log.warning("pagewitness: the key of this engine's prefix cache cannot be read (%s)", type(error).__name__)
        return b""


def _engine_version() -> str:
    import sglang

    return str(sglang.__version__)
