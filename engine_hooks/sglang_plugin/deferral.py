"""Deferred release: decode keeps the pages of a failed transfer until prefill has stopped writing, or a time is up."""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.legs import Legs


class Deferral:
    """Hooks on a deferral and its end, both rare: they say in which mode `release` records the release.

    Every version that defers has both. Without the second one nobody knows whether prefill had stopped writing; the
    node then lists `page.release.mode` as missing.
    """

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def after_defer(self, result: Any, queue: Any, decode_req: Any, **_: Any) -> None:
        """`DecodeTransferQueue._defer_release`: the pages are held until so many prefill ranks have stopped writing,
        as the engine noted down itself (the last number of its entry, in every version), or a time is up."""
        state = self._legs.find(decode_req.req)
        if state is not None:
            state.mode = "deferred"
            state.acks = next(entry[-1] for entry in reversed(queue._deferred_releases) if entry[0] is decode_req)

    def before_do_release(self, queue: Any, decode_req: Any, *_: Any, **__: Any) -> None:
        """`DecodeTransferQueue._do_release`: every deferred request comes through here, drained or not. It asks what
        the engine asked a moment ago; an acknowledgement that came in between has come before the release."""
        state = self._legs.find(decode_req.req)
        if state is None:
            return
        drained = _lies_on_the_host(queue, decode_req) or decode_req.kv_receiver.kv_mgr.is_abort_release_safe(
            decode_req.req.bootstrap_room, state.acks
        )
        state.mode = "deferred" if drained else "timeout"


def _lies_on_the_host(queue: Any, decode_req: Any) -> bool:
    """Whether the destination is host memory: the engine never releases that without a drain (0.5.21 on)."""
    asked = getattr(queue, "_is_host_destination", None)
    if asked is not None:
        return bool(asked(decode_req))
    return bool(getattr(queue, "enable_host_receive", False) and decode_req.host_staged)
