"""Admission: what the client asked for, and whether the node took it in."""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.dialects import salt_of
from engine_hooks.sglang_plugin.legs import Arrival, Legs
from engine_hooks.sglang_plugin.wording import reason_of, status_of


class Admission:
    """Hooks around a request's way into the scheduler's queues."""

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def before_handle(self, scheduler: Any, recv_req: Any, **_: Any) -> None:
        """`Scheduler.handle_generate_request`: the request as it was sent, with its true length."""
        ids = recv_req.input_ids
        self._legs.arriving = Arrival(recv_req.rid, 0 if ids is None else len(ids), salt_of(recv_req))

    def before_abort(
        self, req: Any, error_msg: str, status_code: Any = 400, err_type: str = "BadRequestError", **_: Any
    ) -> None:
        """`Req.set_finish_with_abort`: a rejection, just before the engine swaps the prompt for a placeholder."""
        self._legs.reject(req, reason_of(error_msg, err_type), status_of(status_code) or 400, arrives=True)

    def after_add(self, result: Any, scheduler: Any, req: Any, is_retracted: bool = False, **_: Any) -> None:
        """`Scheduler._add_request_to_queue`: the request is in, unless it was turned away inside."""
        state = self._legs.admit(req, arrives=not is_retracted)
        if state is not None and is_retracted:
            state.restored = True
