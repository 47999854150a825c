"""Alarms: what the engine's own guards caught, with the request and the tenant that it was about, where that is known.

Of an alarm only its kind is kept, and where it points: never a token, a hash or a sentence of the engine.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable
from typing import Any

from engine_hooks.sglang_plugin.copies import Copies
from engine_hooks.sglang_plugin.dialects import row_of
from engine_hooks.sglang_plugin.legs import Legs, LegState

_CANARY_FIELDS = 8  # VIOLATION_FIELDS (kv_canary.consts): kind, slot, position, two tokens, two hashes, reason bits
_FIRST_SWA_KIND = 6  # CanaryLaunchTag (kv_canary.verify): from here on, slots are those of the sliding-window pool
_CANARY_REASONS = ((1 << 2, "checksum"), (1 << 0, "chain"), (1 << 3 | 1 << 5, "token"), (1 << 1 | 1 << 4, "position"))


_Record = Callable[[LegState | None, int | None], None]


class Alarms:
    """Hooks on the engine's alarms, all rare. `watch` says whose requests they can be about."""

    def __init__(self, legs: Legs, copies: Copies) -> None:
        self._legs = legs
        self._copies = copies
        self._scheduler: Callable[[], Any] = lambda: None

    def watch(self, scheduler: Any) -> None:
        """The scheduler whose running requests an alarm that names a slot is looked up in."""
        self._scheduler = weakref.ref(scheduler)

    def before_checksum_mismatch(self, scheduler: Any, req: Any, *_: Any, **__: Any) -> None:
        """`_handle_kv_checksum_mismatch` (0.5.21 on): decode received other KV than prefill sent; it aborts the
        request (and raises instead on the engine's own test machines)."""
        recorder = self._legs.recorder
        if recorder is None:
            return
        state = self._legs.find(req)
        recorder.alarm(
            None if state is None else state.leg,
            alarm="kv_checksum",
            action="aborted",
            reason="checksum",
            row=row_of(req),
        )

    def before_violation(self, *, row: Any, **_: Any) -> None:
        """`_format_violation` of the KV canary (0.5.15 on): one row of its log, as numbers on the CPU. In the mode
        `raise` the engine ends after it."""
        recorder = self._legs.recorder
        fields = list(row)
        if recorder is None or len(fields) != _CANARY_FIELDS:
            return
        kind, slot, position, bits = (int(fields[place]) for place in (0, 1, 2, 7))
        reason = next((word for mask, word in _CANARY_REASONS if bits & mask), "other")
        raises = self._legs.limits.canary == "raise"
        pages = array("i", () if kind >= _FIRST_SWA_KIND else (slot // self._legs.limits.page_size,))

        def record(state: LegState | None, at: int | None) -> None:
            recorder.alarm(
                None if state is None else state.leg,
                alarm="kv_canary",
                action="raised" if raises else "logged",
                reason=reason,
                row=at,
                position=position,
                pages=pages or None,
            )

        holders = self._running() if pages else {}
        table = self._scheduler().req_to_token_pool.req_to_token if holders else None
        # in the mode `raise`, nobody is left to look at a copy from a device
        if table is None or not 0 <= position < table.shape[1] or (raises and table.device.type != "cpu"):
            record(None, None)
            return
        self._look_up(holders, table[:, position], slot, record)

    def _running(self) -> dict[int, LegState]:
        """Open legs of the batches that run or ran last (prefill has no running one), by row."""
        scheduler = self._scheduler()
        batches = [getattr(scheduler, name, None) for name in ("running_batch", "cur_batch", "last_batch")]
        found = {}
        for req in [req for batch in batches if batch is not None for req in batch.reqs]:
            state = self._legs.find(req)
            if state is not None and (row := row_of(req)) is not None:
                found[int(row)] = state
        return found

    def _look_up(self, holders: dict[int, LegState], column: Any, slot: int, record: _Record) -> None:
        """Record the alarm for every leg whose row has the slot in this column, or for none if there is no such row.

        The column is copied, never waited for: until it is here, none of these legs ends.
        """
        for state in holders.values():
            state.waiting += 1

        def use(slots: Any, _: int | None) -> None:
            try:
                rows = [] if slots is None else [row for row in holders if int(slots[row]) == slot]
                for row in rows:
                    record(holders[row], row)
                if not rows:
                    record(None, None)
            finally:
                for state in holders.values():
                    self._legs.arrived(state)

        self._copies.take(column, use)
