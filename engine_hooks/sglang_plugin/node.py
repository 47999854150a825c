"""The node: what its configuration is, recorded when the scheduler is built. The recording starts here."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

from engine_hooks.recorder import Recorder
from engine_hooks.ring_format import RingError
from engine_hooks.sglang_plugin.attach import Attachment
from engine_hooks.sglang_plugin.legs import Legs
from engine_hooks.sglang_plugin.release import shares_prefixes

log = logging.getLogger(__name__)

_ROLES = {"prefill": "prefill", "decode": "decode"}


class Node:
    """The hook after `Scheduler.__init__`. `open_recorder` makes the ring of an emitter with this name."""

    def __init__(self, legs: Legs, open_recorder: Callable[[str], Recorder]) -> None:
        self._legs = legs
        self._open_recorder = open_recorder
        self.attachment = Attachment()
        self._config: dict[str, Any] = {}

    def after_init(self, result: Any, scheduler: Any, *_: Any, **__: Any) -> None:
        """Read the configuration, open the ring, record `node.config`; from now on every hook records."""
        if self._legs.recorder is not None:
            return
        arguments = scheduler.server_args
        role = _ROLES.get(scheduler.disaggregation_mode.value, "unified")
        place = _Place.of(scheduler)
        limits = self._legs.limits
        limits.role = role
        limits.input_limit = int(scheduler.max_req_input_len)
        limits.context_tokens = int(scheduler.model_config.context_len)
        limits.page_size = int(scheduler.token_to_kv_pool_allocator.page_size)
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
            "prefix_cache": shares_prefixes(scheduler.tree_cache),
            "tier": "control",
        }
        try:
            recorder = self._open_recorder(f"{role}-{arguments.port}-{place.label}")
        except RingError as error:  # its sentence says what to do; it is ours and holds no client text
            log.error("pagewitness: nothing is recorded in this process: %s", error)  # noqa: TRY400
            return
        Finalize(None, recorder.close, exitpriority=100)  # unlike atexit, it also runs in a child of multiprocessing
        self._legs.recorder = recorder
        self.record(recorder)

    def record(self, recorder: Recorder) -> None:
        """Record the configuration, with the hooks that are on now."""
        backend = self._config["backend"]
        missing = self.attachment.missing(backend)
        recorder.node_config(**self._config, hooks_attached=self.attachment.attached(backend), hooks_missing=missing)
        if missing:
            log.warning("pagewitness: this node does not record everything; not on: %s", ", ".join(missing))

    def hook_switched_off(self, name: str) -> None:
        """A hook is off: say so in a new configuration."""
        if self._legs.recorder is not None:
            self.record(self._legs.recorder)


class _Place:
    """Where in the node this process stands. A data-parallel replica sees other requests: it is a node of its own."""

    def __init__(self, *, rank: int, ranks: int, replica: int, label: str) -> None:
        self.rank = rank
        self.ranks = ranks
        self.replica = replica
        self.label = label

    @classmethod
    def of(cls, scheduler: Any) -> _Place:
        from sglang.srt.runtime_context import get_parallel

        parallel, arguments = get_parallel(), scheduler.server_args
        tp_rank, pp_rank = int(parallel.tp_rank), int(parallel.pp_rank)
        width, replica = int(arguments.tp_size), 0
        if arguments.dp_size > 1:
            if arguments.enable_dp_attention:
                width = int(parallel.attn_tp_size)
                replica = tp_rank // width
            else:
                holder = getattr(scheduler, "ps", parallel)
                replica = int(holder.dp_rank or 0)
        parts = [f"dp{replica}"] if arguments.dp_size > 1 else []
        parts.append(f"tp{tp_rank}")
        parts += [f"pp{pp_rank}"] if arguments.pp_size > 1 else []
        rank = pp_rank * width + tp_rank % width
        return cls(rank=rank, ranks=width * int(arguments.pp_size), replica=replica, label="-".join(parts))

    def node_id(self, node_boot: bytes) -> bytes:
        if not self.replica:
            return node_boot
        message = node_boot + self.replica.to_bytes(4, "little")
        return hashlib.blake2b(message, digest_size=16, person=b"pw.replica").digest()


def _engine_version() -> str:
    import sglang

    return str(sglang.__version__)
