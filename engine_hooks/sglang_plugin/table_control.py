"""Targets of the control tier, as the newest versions have them; what older ones had instead is in `table_older`.

Read in the source of each version; see `targets`.
"""

from __future__ import annotations

from engine_hooks.sglang_plugin.targets import OLDEST, Target, Version

_D = "sglang.srt.disaggregation."
_SCHEDULER = "sglang.srt.managers.scheduler."
_PREFILL = _D + "prefill.SchedulerDisaggregationPrefillMixin."
_TRANSFER_QUEUE = _D + "decode.DecodeTransferQueue."
_SENDER = _D + "common.conn.CommonKVSender."
_BATCH = "sglang.srt.managers.schedule_batch."
_CACHE = "sglang.srt.mem_cache.common."
_STREAMER = "sglang.srt.managers.scheduler_components.output_streamer.SchedulerOutputStreamer."

BACKENDS = tuple(f"{_D}{backend}.conn" for backend in ("mooncake", "nixl", "mori"))
"""Modules of the transfer backends, whose classes build on the common ones."""

ADMISSION = ("request.admission",)
RESERVED = ("transfer.reserved",)
QUEUED = ("transfer.queued",)
COMMITTED = ("transfer.committed",)
MODE = ("page.release.mode",)
SHARED = ("page.release.shared",)
ANSWER = ("response", "request.end")


def _receiver(path: str, backend: str, since: Version = OLDEST, until: Version | None = None) -> Target:
    """The receiver's side of a backend: where decode tells prefill which pages to fill."""
    uses = ("kv_indices", "aux_index", "decode_prefix_len")
    path = f"{_D}{path}.send_metadata"
    heirs = () if backend else BACKENDS
    handler = "transfer.before_send_metadata"
    return Target(path, "before", handler, RESERVED, uses, backend, since, until, heirs=heirs)


def _sender(path: str, backend: str, since: Version, until: Version | None = None) -> Target:
    """The sender's side of a backend: where the scheduler hands it a chunk, and says how many tokens it holds."""
    path, uses = f"{_D}{path}.send", ("kv_indices", "num_kv_tokens")
    heirs = () if backend else BACKENDS
    return Target(
        path, "before", "transfer.before_send", QUEUED, uses, backend, since, until, cost="chunk", heirs=heirs
    )


def _publish(function: str, since: Version = OLDEST, until: Version | None = None) -> tuple[Target, Target]:
    """Both sides of the call with which a running request's pages go into the prefix cache."""
    uses = ("req", "tree_cache")
    return (
        Target(_CACHE + function, "before", "release.before_publish", SHARED, uses, "", since, until, cost="chunk"),
        Target(_CACHE + function, "after", "release.after_publish", SHARED, uses, "", since, until, cost="chunk"),
    )


CONTROL: tuple[Target, ...] = (
    Target(_SCHEDULER + "Scheduler.__init__", "after", "node.after_init", ("node.config",), cost="rare"),
    # admission
    Target(_SCHEDULER + "Scheduler.handle_generate_request", "before", "admission.before_handle", ADMISSION,
           ("recv_req",)),
    Target(_BATCH + "Req.set_finish_with_abort", "before", "admission.before_abort", ADMISSION,
           ("error_msg", "status_code"), since=(0, 5, 19), cost="rare"),
    Target(_SCHEDULER + "Scheduler._add_request_to_queue", "after", "admission.after_add", ADMISSION, ("req",)),
    # transfer, decode side
    Target(_D + "decode.DecodePreallocQueue._create_receiver_and_enqueue", "after", "transfer.after_create_receiver",
           RESERVED, ("req",)),
    _receiver("mooncake.conn.MooncakeKVReceiver", "mooncake", until=(0, 5, 22)),
    _receiver("nixl.conn.NixlKVReceiver", "nixl", until=(0, 5, 22)),
    _receiver("mori.conn.MoriKVReceiver", "mori", until=(0, 5, 22)),
    _receiver("common.conn.CommonKVReceiver", "", since=(0, 5, 23)),
    _receiver("fake.conn.FakeKVReceiver", ""),
    Target(_TRANSFER_QUEUE + "_commit_transfer_to_req", "before", "transfer.before_commit", COMMITTED, ("decode_req",)),
    Target(_TRANSFER_QUEUE + "_commit_transfer_to_req", "after", "transfer.after_commit", COMMITTED, ("decode_req",)),
    # transfer, prefill side
    Target(_D + "prefill.PrefillBootstrapQueue.finalize_bootstrap", "after", "transfer.after_finalize_bootstrap",
           ("transfer.destination",), ("req",), since=(0, 5, 13)),
    _sender("mooncake.conn.MooncakeKVSender", "mooncake", (0, 5, 17), (0, 5, 22)),
    _sender("nixl.conn.NixlKVSender", "nixl", (0, 5, 17), (0, 5, 22)),
    _sender("mori.conn.MoriKVSender", "mori", (0, 5, 17), (0, 5, 22)),
    _sender("common.conn.CommonKVSender", "", (0, 5, 23)),
    Target(_SENDER + "_prepare_send_indices", "after", "transfer.after_prepare_send", QUEUED, ("kv_indices",),
           since=(0, 5, 13), cost="chunk", heirs=BACKENDS),
    Target(_SENDER + "_record_transfer_indices", "after", "transfer.after_record_indices", QUEUED, ("kv_indices",),
           since=(0, 5, 13), cost="chunk", heirs=BACKENDS),
    # forwards
    Target(_SCHEDULER + "Scheduler.run_batch", "after", "steps.after_run_batch", ("page.read", "page.release"),
           ("batch",), cost="step"),
    # release
    Target(_BATCH + "release_req", "before", "release.before_retract", MODE, ("req",), since=(0, 5, 13), cost="rare"),
    Target(_PREFILL + "optimistic_release_and_requeue", "before", "release.before_requeue", MODE, ("req",),
           since=(0, 5, 13), cost="rare"),
    Target(_CACHE + "release_kv_cache", "before", "release.before_release", ("page.release", "page.read"),
           ("req", "tree_cache")),
    *_publish("maybe_cache_unfinished_req", until=(0, 5, 21)),
    *_publish("checkpoint_kv_cache", since=(0, 5, 22)),
    # the end of a leg
    Target(_BATCH + "Req.reset_for_retract", "before", "release.before_reset", ("request.end",), cost="rare"),
    Target(_STREAMER + "stream_output", "before", "response.before_stream", ANSWER, ("reqs", "skip_req"),
           since=(0, 5, 13), cost="step"),
    Target(_SCHEDULER + "_make_abort_req", "before", "response.before_abort_message", ANSWER,
           ("req", "finished_reason"), since=(0, 5, 19), cost="rare"),
)  # fmt: skip
