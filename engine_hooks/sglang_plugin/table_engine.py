"""Targets at which the engine itself concludes, shares or raises an alarm. Read in the source; see `targets`.

What each of these costs an ordinary request in the control tier: `transfer.landed` one fact on either side (on decode,
one for each prefill rank), everything else nothing. A metadata slot is a fact there only when the engine refused it, a
match only when it found something (both inside hooks of the control table), and the rest is rare.
"""

from __future__ import annotations

from engine_hooks.sglang_plugin.targets import OLDEST, Target, Version

_D = "sglang.srt.disaggregation."
_MANAGER = _D + "common.conn.CommonKVManager."
_QUEUE = _D + "decode.DecodeTransferQueue."
_REQ = "sglang.srt.managers.schedule_batch.Req."
_HIERARCHICAL = "sglang.srt.mem_cache.hiradix_cache.HiRadixCache."
_UNIFIED = "sglang.srt.mem_cache.unified_radix_cache.UnifiedRadixCache."
_LAST_HIERARCHICAL: Version = (0, 5, 20)


def _concluded(function: str, handler: str, uses: tuple[str, ...]) -> Target:
    uses = ("bootstrap_room", "status", "failure_reason", *uses)
    return Target(
        _MANAGER + function, "before", f"concluded.{handler}", ("transfer.landed",), uses, since=(0, 5, 20),
        thread="transfer",
    )  # fmt: skip


def _rare(
    path: str, when: str, handler: str, fact: str, uses: tuple[str, ...], since: Version = OLDEST,
    until: Version | None = None,
) -> Target:  # fmt: skip
    return Target(path, when, handler, (fact,), uses, "", since, until, cost="rare")


def _host(path: str, handler: str, fact: str, uses: tuple[str, ...], since: Version, until: Version | None) -> Target:
    return _rare(path, "after", f"host_tier.{handler}", f"page.share.{fact}", uses, since, until)


ENGINE: tuple[Target, ...] = (
    # what prefill ranks say of their part of a transfer
    _concluded("conclude_transfer", "before_conclude", ()),
    _concluded("apply_prefill_status", "before_prefill_status", ("prefill_rank",)),
    # metadata slots; decode's side is in the hooks around the commit
    Target(_D + "utils.MetadataBuffers.set_buf", "after", "slots.after_set_buf", ("slot.use",), ("req",), tier="exact"),
    # the engine's own alarms; that of the room check is in the hook after the commit
    _rare(
        _D + "decode.SchedulerDisaggregationDecodeMixin._handle_kv_checksum_mismatch", "before",
        "alarms.before_checksum_mismatch", "alarm", ("req",), (0, 5, 21),
    ),
    _rare(
        "sglang.srt.kv_canary.runner.violation_reporter._format_violation", "before", "alarms.before_violation",
        "alarm", ("row",), (0, 5, 15),
    ),
    # a deferred release, and whether prefill had stopped writing by then
    _rare(_QUEUE + "_defer_release", "after", "deferral.after_defer", "page.release.mode", ("decode_req",), (0, 5, 19)),
    _rare(
        _QUEUE + "_do_release", "before", "deferral.before_do_release", "page.release.mode", ("decode_req",), (0, 5, 19)
    ),
    # host memory: a cache there
    _host(_HIERARCHICAL + "init_load_back", "after_load_back", "load", ("params",), OLDEST, _LAST_HIERARCHICAL),
    _host(_UNIFIED + "init_load_back", "after_load_back", "load", ("params",), (0, 5, 12), None),
    _host(_HIERARCHICAL + "write_backup", "after_write_through", "store", ("write_back",), OLDEST, _LAST_HIERARCHICAL),
    _host(_UNIFIED + "write_backup", "after_write_through", "store", ("write_back",), (0, 5, 12), (0, 5, 16)),
    _host(
        _UNIFIED + "_execute_and_commit_kv_backup", "after_write_through", "store", ("write_back",), (0, 5, 17), None
    ),
    # host memory: the backup of a retracted request
    _host(_REQ + "offload_kv_cache", "after_offload", "store", (), OLDEST, None),
    _host(_REQ + "load_kv_cache", "after_reload", "load", (), OLDEST, None),
    _host(_UNIFIED + "retraction_backup", "after_backup", "store", ("req",), (0, 5, 18), (0, 5, 20)),
    _host(_UNIFIED + "backup_kv_cache", "after_backup", "store", ("req",), (0, 5, 21), None),
    _host(_UNIFIED + "retraction_restore", "after_restore", "load", ("req",), (0, 5, 18), (0, 5, 20)),
    _host(_UNIFIED + "restore_kv_cache", "after_restore", "load", ("req",), (0, 5, 21), None),
)  # fmt: skip
