"""Concluded: a prefill rank says that its part of a transfer has landed or failed, as it says it and as decode hears.

These hooks run on the engine's transfer threads (0.5.20 on), beside the scheduler's. They come before the engine acts
on the word, so that the leg is still open when it is recorded; a word that comes in the very moment in which the leg
ends may come after its last fact, and then the leg does not count as complete. All that is in hand is a room.
"""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.legs import Legs, LegState
from engine_hooks.sglang_plugin.rooms import Rooms
from engine_hooks.sglang_plugin.wording import failure_of

_FAILED, _SUCCESS = 0, 4  # KVPoll (sglang.srt.disaggregation.base.conn)
_MOST_WORDS = 256  # of one leg: a peer can repeat itself and can name any rank


class Concluded:
    """Hooks on the two places through which every backend's conclusions go."""

    def __init__(self, legs: Legs, rooms: Rooms) -> None:
        self._legs = legs
        self._rooms = rooms

    def before_conclude(
        self, manager: Any, *, bootstrap_room: Any, status: Any, failure_reason: Any = None, **_: Any
    ) -> None:
        """`CommonKVManager.conclude_transfer`, prefill: every byte of the room has been written, or it will not be.

        The engine does not call it a success where a failure is on record already; neither does this.
        """
        if bootstrap_room not in manager.request_status:
            return
        recorded = manager.failure_records.get(bootstrap_room)
        failed = status == _FAILED or recorded is not None or manager.request_status.get(bootstrap_room) == _FAILED
        self._record(bootstrap_room, "send", None, not failed, recorded or failure_reason)

    def before_prefill_status(
        self, manager: Any, *, bootstrap_room: Any, status: Any, prefill_rank: Any, failure_reason: Any = None, **_: Any
    ) -> None:
        """`CommonKVManager.apply_prefill_status`, decode: the word of one prefill rank. Decode counts the ranks whose
        word it has, and takes a transfer for complete when there are enough."""
        if bootstrap_room in manager.request_status and status in (_SUCCESS, _FAILED):
            self._record(bootstrap_room, "receive", int(prefill_rank), status == _SUCCESS, failure_reason)

    def _record(self, room: Any, side: str, rank: int | None, landed: bool, reason: Any) -> None:
        recorder = self._legs.recorder
        if recorder is None:
            return
        legs = self._rooms.legs_of(room)
        ambiguous = self._rooms.shares(room)
        for state in legs:
            if not _is_news(state, -1 if rank is None else rank, landed):
                continue
            if ambiguous:
                self._legs.gap(state)
                continue
            recorder.transfer_concluded(
                state.leg,
                side=side,
                landed=landed,
                peer_rank=rank,
                failure="none" if landed else failure_of(reason),
            )


def _is_news(state: LegState, rank: int, landed: bool) -> bool:
    """Whether a leg has not had this word before. A retransmission says nothing new."""
    if state.concluded is None:
        state.concluded = set()
    if (rank, landed) in state.concluded or len(state.concluded) >= _MOST_WORDS:
        return False
    state.concluded.add((rank, landed))
    return True
