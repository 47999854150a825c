"""Where the hooks attach in SGLang 0.5.19 to 0.5.23, as data. Read in the source of each version; see `targets`."""

from __future__ import annotations

import re

from engine_hooks.sglang_plugin.targets import NEWEST, OLDEST, Target, Version

_D = "sglang.srt.disaggregation."
_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler."
_PREFILL = _D + "prefill.SchedulerDisaggregationPrefillMixin."
_REQ = "sglang.srt.managers.schedule_batch.Req."
_CACHE = "sglang.srt.mem_cache.common."


def _receiver(path: str, backend: str, since: Version = OLDEST, until: Version | None = None) -> Target:
    uses = ("kv_indices", "aux_index", "decode_prefix_len")
    path = f"{_D}{path}.send_metadata"
    return Target(path, "before", "transfer.before_send_metadata", ("transfer.reserved",), uses, backend, since, until)


def _sender(path: str, backend: str, since: Version = OLDEST, until: Version | None = None) -> Target:
    uses = ("kv_indices", "num_kv_tokens")
    return Target(
        f"{_D}{path}.send", "before", "transfer.before_send", ("transfer.queued",), uses, backend, since, until
    )


TABLE: tuple[Target, ...] = (
    Target(_SCHEDULER + "__init__", "after", "node.after_init", ("node.config",)),
    # admission
    Target(
        _SCHEDULER + "handle_generate_request",
        "before",
        "admission.before_handle",
        ("request.admission",),
        ("recv_req",),
    ),
    Target(
        _REQ + "set_finish_with_abort",
        "before",
        "admission.before_abort",
        ("request.admission",),
        ("error_msg", "status_code"),
    ),
    Target(_SCHEDULER + "_add_request_to_queue", "after", "admission.after_add", ("request.admission",), ("req",)),
    # transfer, decode side
    Target(
        _D + "decode.DecodePreallocQueue._create_receiver_and_enqueue",
        "after",
        "transfer.after_create_receiver",
        ("transfer.reserved",),
        ("req",),
    ),
    _receiver("mooncake.conn.MooncakeKVReceiver", "mooncake", until=(0, 5, 22)),
    _receiver("nixl.conn.NixlKVReceiver", "nixl", until=(0, 5, 22)),
    _receiver("mori.conn.MoriKVReceiver", "mori", until=(0, 5, 22)),
    _receiver("common.conn.CommonKVReceiver", "", since=(0, 5, 23)),
    _receiver("fake.conn.FakeKVReceiver", ""),
    Target(
        _D + "decode.DecodeTransferQueue._commit_transfer_to_req",
        "before",
        "transfer.before_commit",
        ("transfer.committed",),
        ("decode_req",),
    ),
    Target(
        _D + "decode.DecodeTransferQueue._commit_transfer_to_req",
        "after",
        "transfer.after_commit",
        ("transfer.committed",),
        ("decode_req",),
    ),
    # transfer, prefill side
    Target(
        _D + "prefill.PrefillBootstrapQueue.finalize_bootstrap",
        "after",
        "transfer.after_finalize_bootstrap",
        ("transfer.destination",),
        ("req",),
    ),
    _sender("mooncake.conn.MooncakeKVSender", "mooncake", until=(0, 5, 22)),
    _sender("nixl.conn.NixlKVSender", "nixl", until=(0, 5, 22)),
    _sender("mori.conn.MoriKVSender", "mori", until=(0, 5, 22)),
    _sender("common.conn.CommonKVSender", "", since=(0, 5, 23)),
    Target(
        _D + "common.conn.CommonKVSender._prepare_send_indices",
        "after",
        "transfer.after_prepare_send",
        ("transfer.queued",),
        ("kv_indices",),
    ),
    Target(
        _D + "common.conn.CommonKVSender._record_transfer_indices",
        "after",
        "transfer.after_record_indices",
        ("transfer.queued",),
        ("kv_indices",),
    ),
    # forwards
    Target(_SCHEDULER + "run_batch", "after", "steps.after_run_batch", ("page.read", "page.release"), ("batch",)),
    # release
    Target(
        "sglang.srt.managers.schedule_batch.release_req",
        "before",
        "release.before_retract",
        ("page.release.mode",),
        ("req",),
    ),
    Target(
        _PREFILL + "optimistic_release_and_requeue",
        "before",
        "release.before_requeue",
        ("page.release.mode",),
        ("req",),
    ),
    Target(
        _D + "decode.DecodeTransferQueue._defer_release",
        "before",
        "release.before_defer",
        ("page.release.mode",),
        ("decode_req",),
    ),
    Target(
        _CACHE + "release_kv_cache",
        "before",
        "release.before_release",
        ("page.release", "page.read"),
        ("req", "tree_cache"),
    ),
    Target(
        _CACHE + "maybe_cache_unfinished_req",
        "before",
        "release.before_publish",
        ("page.release.shared",),
        ("req", "tree_cache"),
        until=(0, 5, 21),
    ),
    Target(
        _CACHE + "maybe_cache_unfinished_req",
        "after",
        "release.after_publish",
        ("page.release.shared",),
        ("req", "tree_cache"),
        until=(0, 5, 21),
    ),
    Target(
        _CACHE + "checkpoint_kv_cache",
        "before",
        "release.before_publish",
        ("page.release.shared",),
        ("req", "tree_cache"),
        since=(0, 5, 22),
    ),
    Target(
        _CACHE + "checkpoint_kv_cache",
        "after",
        "release.after_publish",
        ("page.release.shared",),
        ("req", "tree_cache"),
        since=(0, 5, 22),
    ),
    # the end of a leg
    Target(_REQ + "reset_for_retract", "before", "release.before_reset", ("request.end",)),
    Target(
        "sglang.srt.managers.scheduler_components.output_streamer.SchedulerOutputStreamer.stream_output",
        "before",
        "response.before_stream",
        ("response", "request.end"),
        ("reqs", "skip_req"),
    ),
    Target(
        "sglang.srt.managers.scheduler._make_abort_req",
        "before",
        "response.before_abort_message",
        ("response", "request.end"),
        ("req", "finished_reason"),
    ),
)


def parse_version(text: str) -> Version:
    """The first three numbers of an engine version; what is no version (a build from source) counts as the newest."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None or match.groups() == ("0", "0", "0"):
        return NEWEST
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)


def targets_for(version: Version) -> tuple[Target, ...]:
    """The rows of the table for an engine version; a version outside the table gets those of its nearest edge."""
    at = min(max(version, OLDEST), NEWEST)
    return tuple(row for row in TABLE if row.since <= at and (row.until is None or at <= row.until))
