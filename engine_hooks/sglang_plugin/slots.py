"""Metadata slots: which room the content of a slot names, when prefill fills it and when decode takes it.

The engine compares the two rooms itself before it commits (the room check, in every version of the table). So in the
control tier a slot is only looked at when the engine has refused: that costs an ordinary request nothing. In the exact
tier every use is a fact.
"""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.legs import Legs, LegState


class Slots:
    """Looks into `MetadataBuffers.bootstrap_room`, where that lies on the CPU (on an NPU, or with one of Mooncake's
    memory pools, it does not)."""

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    def after_set_buf(self, result: Any, buffers: Any, req: Any, *_: Any, **__: Any) -> None:
        """`MetadataBuffers.set_buf`, prefill: the first token and its lengths are in the slot, for decode to take."""
        state = self._legs.find(req)
        if state is not None:
            self._use(state, "write", req.metadata_buffer_index, self._named(buffers, req, req.metadata_buffer_index))

    def taken(self, state: LegState, queue: Any, decode_req: Any) -> None:
        """Decode is about to commit what is in the slot of this request (exact tier)."""
        slot = decode_req.metadata_buffer_index
        self._use(state, "read", slot, self._named(queue.metadata_buffers, decode_req.req, slot))

    def refused(self, state: LegState, queue: Any, decode_req: Any) -> None:
        """Decode did not commit. If the slot named another room, or none, that was the engine's room check."""
        slot = decode_req.metadata_buffer_index
        named = self._named(queue.metadata_buffers, decode_req.req, slot)
        recorder = self._legs.recorder
        if recorder is None or named is None or named == state.room:
            return
        if self._legs.limits.tier != "exact":
            self._use(state, "read", slot, named)
        reason = "room_mismatch" if named else "room_missing"
        recorder.alarm(state.leg, alarm="room_check", action="aborted", reason=reason, slot=slot)

    def _named(self, buffers: Any, req: Any, slot: int) -> int | None:
        """Digest of the room that the slot names, 0 if it names none, None if it cannot be looked at."""
        rooms = buffers.bootstrap_room
        if rooms.device.type != "cpu":
            return None
        room = int(rooms.numpy()[slot, 0])
        return self._legs.evidence.room(room) if room else 0

    def _use(self, state: LegState, operation: str, slot: int, named: int | None) -> None:
        recorder = self._legs.recorder
        if recorder is not None and named is not None:
            recorder.slot_use(state.leg, operation=operation, slot=slot, room=state.room, slot_room=named)
