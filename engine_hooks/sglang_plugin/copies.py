"""Numbers that may lie on a device: handed on at once from the CPU, after an asynchronous copy from anywhere else.

The scheduler's thread must never wait for a device. So a tensor that is not on the CPU is copied into pinned memory of
our own behind what its stream already holds, with an event behind the copy; whoever looks by later (`poll`, from hooks
that run all the time) hands on what has arrived, in the order of the copies. No tensor of the engine is kept: what is
queued is the copy. What does not arrive, or is more than `MOST_BYTES` in flight, is given up, and its user told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 64 << 20
"""Pinned memory that may be in flight; beyond it, copies are given up."""

Use = Callable[[Any, int | None], None]
"""Takes a numpy array, or None if it was given up, and the seq after which the numbers were taken (None: just now)."""

Start = Callable[[Any], tuple[Any, Any]]
"""Begins a copy of a tensor: the tensor of numbers to come, and an event to ask whether they are there (None: now)."""


@dataclass(frozen=True, slots=True)
class _Copy:
    numbers: Any
    event: Any
    use: Use
    after_seq: int


class Copies:
    """The copies of one scheduler process, all made and looked for on the scheduler's thread.

    `last_seq` says how many facts the boot has recorded so far; `start` begins a copy, and gives the numbers to come
    and the event behind them.
    """

    def __init__(self, last_seq: Callable[[], int], start: Start | None = None) -> None:
        self._last_seq = last_seq
        self._start = start or _start
        self._pending: deque[_Copy] = deque()
        self._bytes = 0

    def take(self, tensor: Any, use: Use) -> None:
        """Hand the numbers of a tensor to `use`: before this returns if they are on the CPU and none is under way
        before them, else from a later `poll`."""
        if tensor.device.type == "cpu" and not self._pending:
            use(tensor.numpy(), None)
            return
        size = tensor.numel() * tensor.element_size()
        if self._bytes + size > MOST_BYTES:
            use(None, None)
            return
        try:
            numbers, event = self._start(tensor)
        except Exception:  # whatever it was, it is the boundary's to count; but somebody waits for these numbers
            use(None, None)
            raise
        self._bytes += size
        self._pending.append(_Copy(numbers, event, use, self._last_seq()))

    def take_part(self, table: Any, part: tuple[Any, ...], use: Use) -> None:
        """The same for a part of a table. On the CPU numpy cuts it out, in half the time that a tensor takes."""
        if table.device.type == "cpu" and not self._pending:
            use(table.numpy()[part], None)
        else:
            self.take(table[part], use)

    def poll(self, *, last: bool = False) -> None:
        """Hand on what has arrived; with `last`, give up the rest."""
        while self._pending:
            copy = self._pending[0]
            if copy.event is not None and not copy.event.query():
                if not last:
                    return
                self._done(copy, None)
            else:
                self._done(copy, copy.numbers.numpy())

    def _done(self, copy: _Copy, numbers: Any) -> None:
        self._pending.popleft()
        self._bytes -= copy.numbers.numel() * copy.numbers.element_size()
        copy.use(numbers, copy.after_seq)


def _start(tensor: Any) -> tuple[Any, Any]:
    import torch

    if tensor.device.type == "cpu":  # it waits for those before it
        return tensor.clone(), None
    numbers = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    numbers.copy_(tensor, non_blocking=True)
    event = torch.get_device_module(tensor.device).Event()
    event.record()
    return numbers, event
