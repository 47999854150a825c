"""Where versions before 0.5.19 have what the control tier hooks in the newer ones. Read in their source.

Each row stands for one or more rows of `table_control` and says until which version it does. What an older version does
not have at all (a deferred release, an optimistic start) has no row there: nothing of the kind happens in it.
"""

from __future__ import annotations

from engine_hooks.sglang_plugin.table_control import ADMISSION, ANSWER, MODE, QUEUED
from engine_hooks.sglang_plugin.targets import OLDEST, Target, Version

_D = "sglang.srt.disaggregation."
_MANAGERS = "sglang.srt.managers."
_SEND_OUTPUT = ("output", "recv_obj")

_BEFORE_OUTPUT_STREAMER: Version = (0, 5, 12)
_BEFORE_TOKENS_IN_SEND: Version = (0, 5, 16)
_BEFORE_ABORT_MESSAGES: Version = (0, 5, 18)


def _send_output(path: str, since: Version, until: Version) -> Target:
    """An abort message has no maker of its own yet: it is seen where the scheduler's messages leave."""
    path = f"{_MANAGERS}{path}.SenderWrapper.send_output"
    return Target(path, "before", "older.before_send_output", ANSWER, _SEND_OUTPUT, "", since, until, cost="step")


def _sender(sender: str, backend: str) -> Target:
    """A chunk is handed over without its number of tokens."""
    path, until = f"{_D}{sender}.send", _BEFORE_TOKENS_IN_SEND
    return Target(path, "before", "older.before_send", QUEUED, ("kv_indices",), backend, OLDEST, until, cost="chunk")


def _add_transfer(manager: str, backend: str) -> Target:
    """The sender works out by itself which part of a chunk it sends; what it hands its manager is that part."""
    path = f"{_D}{manager}.add_transfer_request"
    uses = ("bootstrap_room", "kv_indices", "index_slice")
    until = _BEFORE_OUTPUT_STREAMER
    return Target(path, "before", "older.before_add_request", QUEUED, uses, backend, OLDEST, until, cost="chunk")


OLDER: tuple[Target, ...] = (
    # admission: the status of a rejection is always 400
    Target(_MANAGERS + "schedule_batch.Req.set_finish_with_abort", "before", "admission.before_abort", ADMISSION,
           ("error_msg",), until=(0, 5, 18), cost="rare"),
    # transfer, prefill side
    Target(_D + "prefill.PrefillBootstrapQueue.pop_bootstrapped", "after", "older.after_pop_bootstrapped",
           ("transfer.destination",), until=_BEFORE_OUTPUT_STREAMER, cost="step"),
    Target(_D + "prefill.SchedulerDisaggregationPrefillMixin.send_kv_chunk", "before", "older.before_send_chunk",
           QUEUED, ("req", "last_chunk", "end_idx"), until=_BEFORE_TOKENS_IN_SEND, cost="chunk"),
    _sender("mooncake.conn.MooncakeKVSender", "mooncake"),
    _sender("nixl.conn.NixlKVSender", "nixl"),
    _sender("mori.conn.MoriKVSender", "mori"),
    _add_transfer("mooncake.conn.MooncakeKVManager", "mooncake"),
    _add_transfer("nixl.conn.NixlKVManager", "nixl"),
    _add_transfer("mori.conn.MoriKVManager", "mori"),
    # release
    Target(_MANAGERS + "schedule_batch.ScheduleBatch.release_req", "before", "older.before_retract_at", MODE, ("idx",),
           until=_BEFORE_OUTPUT_STREAMER, cost="rare"),
    # the end of a leg
    Target(_MANAGERS + "scheduler_output_processor_mixin.SchedulerOutputProcessorMixin.stream_output", "before",
           "response.before_stream", ANSWER, ("reqs", "skip_req"), until=_BEFORE_OUTPUT_STREAMER, cost="step"),
    _send_output("scheduler", OLDEST, _BEFORE_OUTPUT_STREAMER),
    _send_output("scheduler_components.output_sender", (0, 5, 13), _BEFORE_ABORT_MESSAGES),
)  # fmt: skip
