"""Hooks of engine versions before 0.5.19, whose functions are cut differently: they call the newer versions' hooks.

Which version has which is in `table_older`. They all run on the scheduler's thread, one call at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine_hooks.sglang_plugin.legs import Legs
from engine_hooks.sglang_plugin.release import Release
from engine_hooks.sglang_plugin.response import Response
from engine_hooks.sglang_plugin.transfer import Transfer


@dataclass(slots=True)
class _Sending:
    """The call of a sender's `send` that is under way: what it was given."""

    sender: Any
    kv_indices: Any
    state_indices: Any


class Older:
    """Hooks that have no counterpart of the same shape in 0.5.19 and newer."""

    def __init__(self, legs: Legs, transfer: Transfer, release: Release, response: Response) -> None:
        self._legs = legs
        self._transfer = transfer
        self._release = release
        self._response = response
        self._chunk_tokens: int | None = None
        self._sending: _Sending | None = None

    # ------------------------------------------------------------------ transfer, prefill side

    def after_pop_bootstrapped(self, result: Any, queue: Any, *_: Any, **__: Any) -> None:
        """`PrefillBootstrapQueue.pop_bootstrapped` (to 0.5.12): the destinations of these requests have arrived."""
        for req in result[0] if isinstance(result, tuple) else result:
            self._transfer.after_finalize_bootstrap(True, queue, req)

    def before_send_chunk(
        self, scheduler: Any, req: Any, last_chunk: bool = False, end_idx: int | None = None, **_: Any
    ) -> None:
        """`send_kv_chunk` (to 0.5.16): how many tokens go, which the sender is not told yet. Worked out as the engine
        does it a line later: what is computed by now, without the last page while that may still fill up."""
        end = min(_computed(req), len(req.origin_input_ids)) if end_idx is None else end_idx
        if not last_chunk:
            end -= end % self._legs.limits.page_size
        self._chunk_tokens = max(0, end - req.start_send_idx)

    def before_send(self, sender: Any, kv_indices: Any, state_indices: Any = None, **_: Any) -> None:
        """`<Sender>.send` (to 0.5.16)."""
        tokens, self._chunk_tokens = self._chunk_tokens, None
        self._sending = _Sending(sender, kv_indices, state_indices)
        self._transfer.before_send(sender, kv_indices, state_indices, tokens)

    def before_add_request(
        self,
        manager: Any,
        bootstrap_room: Any,
        kv_indices: Any,
        index_slice: Any,
        is_last: bool = False,
        *_: Any,
        **__: Any,
    ) -> None:
        """`<Manager>.add_transfer_request` (to 0.5.12): the part of the chunk that this rank sends goes into the queue.

        The manager knows a room only. Whose it is follows from the `send` that is under way.
        """
        sending, self._sending = self._sending, None
        if sending is None or sending.sender.bootstrap_room != bootstrap_room:
            return
        kept = (kv_indices, index_slice, is_last)
        self._transfer.after_prepare_send(kept, sending.sender, sending.kv_indices)
        self._transfer.after_record_indices(None, sending.sender, kv_indices, sending.state_indices)

    # ------------------------------------------------------------------ release and the end of a leg

    def before_retract_at(self, batch: Any, idx: int, *_: Any, **__: Any) -> None:
        """`ScheduleBatch.release_req` (to 0.5.12): the request at this place of the batch is retracted."""
        self._release.before_retract(req=batch.reqs[idx])

    def before_send_output(self, wrapper: Any, output: Any, recv_obj: Any = None, *_: Any, **__: Any) -> None:
        """`SenderWrapper.send_output` (to 0.5.18): an abort message about a request leaves the scheduler."""
        if type(output).__name__ == "AbortReq" and hasattr(recv_obj, "origin_input_ids"):
            self._response.before_abort_message(recv_obj, output.finished_reason)


def _computed(req: Any) -> int:
    """Token positions of a prompt whose KV is there: `extend_range` from 0.5.15, `fill_len` from 0.5.13, before that
    the tokens themselves."""
    extent = getattr(req, "extend_range", None)
    if extent is not None:
        return int(extent.end)
    length = getattr(req, "fill_len", None)
    return len(req.fill_ids) if length is None else int(length)
