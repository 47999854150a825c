"""Response: what the engine told the client's side, and the leg's last fact."""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.copies import Copies
from engine_hooks.sglang_plugin.dialects import kv_of
from engine_hooks.sglang_plugin.legs import Legs
from engine_hooks.sglang_plugin.release import how_it_ended
from engine_hooks.sglang_plugin.transfer import Transfer
from engine_hooks.sglang_plugin.wording import finish_of, is_client_abort, reason_of, status_of

_NO_STATUS = 500
"""Stands for a rejection that carried none: the contract wants a status, and the engine answers with an error."""


class Response:
    """Hooks on the two ways in which an answer leaves the scheduler: the output stream, and an abort message."""

    def __init__(self, legs: Legs, transfer: Transfer, copies: Copies) -> None:
        self._legs = legs
        self._transfer = transfer
        self._copies = copies

    def before_stream(
        self, streamer: Any, reqs: Any, return_logprob: Any = None, skip_req: Any = None, *_: Any, **__: Any
    ) -> None:
        """`SchedulerOutputStreamer.stream_output`: called every step, idle ones included; under overlap twice for a
        finished request."""
        self._copies.poll()
        for req in reqs:
            reason = req.finished_reason
            if reason is not None and req is not skip_req:
                message = getattr(reason, "message", None)
                status = status_of(getattr(reason, "status_code", None))
                self._answered(req, finish_of(reason), status, message)

    def before_abort_message(self, req: Any, finished_reason: Any = None, **_: Any) -> None:
        """`_make_abort_req`: the request is told off outside the output stream, e.g. while it waits in a queue."""
        reason = finished_reason if isinstance(finished_reason, dict) else {}
        self._answered(req, "abort", status_of(reason.get("status_code")), reason.get("message"))

    def _answered(self, req: Any, finish: str, status: int | None, message: Any) -> None:
        state = self._legs.start(req)
        recorder = self._legs.recorder
        if state is None or recorder is None or state.responded:
            return
        if not state.decided and finish == "abort":
            self._legs.reject(req, reason_of(message), _NO_STATUS if status is None else status)
        self._legs.admit(req)
        state.responded = True
        state.finish = finish
        state.aborted_status = status
        state.client_abort = is_client_abort(message)
        self._transfer.flush(state, last=not kv_of(req).holds_kv)
        recorder.response(
            state.leg,
            finish=finish,
            input_tokens=len(req.origin_input_ids),
            output_tokens=len(req.output_ids),
            delivered=_delivered(req, finish, status),
            status=status,
        )
        if state.released or not kv_of(req).holds_kv:
            self._legs.end(state, how_it_ended(state))


def _delivered(req: Any, finish: str, status: int | None) -> int:
    """Output tokens that could reach the client.

    An abort with an error status is answered with the error alone, after whatever was streamed before. An abort
    without one (the request was withdrawn, maybe by somebody else) hands the tokens so far to whoever still listens.
    """
    if finish != "abort" or status is None:
        return len(req.output_ids)
    return int(req.send_token_offset) if req.stream else 0
