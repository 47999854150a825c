"""Many threads insert, one insert runs: what waits meanwhile goes together in the next.

Planning an insert costs far more than a small request does, so under load this is what keeps the store in step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from collector.store.errors import BodyRefusedError, StoreFailedError
from collector.store.receipt import Receipt

MAX_GROUP_BYTES = 16 * 1024 * 1024


class _Waiting:
    """A request that somebody waits for."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.outcome: Receipt | BodyRefusedError | StoreFailedError | None = None


class Turns:
    """Hands requests to `insert_all` in groups, in the order in which they came."""

    def __init__(self, insert_all: Callable[[Sequence[bytes]], list[Receipt]]) -> None:
        self._insert_all = insert_all
        self._queue: deque[_Waiting] = deque()
        self._turn = threading.Lock()

    @property
    def waiting(self) -> int:
        """Requests that no insert has taken yet."""
        return len(self._queue)

    def insert(self, message: bytes) -> Receipt:
        """Wait until this request is stored, alone or with others. Raises what `insert_all` raises for it."""
        mine = _Waiting(message)
        self._queue.append(mine)
        while mine.outcome is None:
            with self._turn:
                if mine.outcome is None:  # nobody took it along: take what waits, the oldest first
                    self._commit(self._next_group())
        if isinstance(mine.outcome, Exception):
            raise mine.outcome
        return mine.outcome

    def _next_group(self) -> list[_Waiting]:
        group = [self._queue.popleft()]
        size = len(group[0].message)
        while self._queue and size + len(self._queue[0].message) <= MAX_GROUP_BYTES:
            group.append(self._queue.popleft())
            size += len(group[-1].message)
        return group

    def _commit(self, group: list[_Waiting]) -> None:
        try:
            for waiting, receipt in zip(group, self._insert_all([one.message for one in group]), strict=True):
                waiting.outcome = receipt
        except (BodyRefusedError, StoreFailedError) as error:
            if len(group) == 1:
                group[0].outcome = error
                return
            for waiting in group:  # one of them may be to blame: the others must not suffer for it
                self._commit([waiting])
        except BaseException:
            for waiting in group:
                waiting.outcome = waiting.outcome or StoreFailedError("the store stopped in the middle of it")
            raise
