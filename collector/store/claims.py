"""Who may speak for a boot: the token under which its first batch came."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import UTC, datetime

from clickhouse_connect.driver.exceptions import DatabaseError

from collector.store.errors import StoreFailedError
from collector.store.handle import Handle

_REMEMBERED = 100_000


class Claims:
    """Which token claimed (emitter, boot). Claims are never given up, and hold over restarts."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def claim(self, emitter: str, boot: str, token_id: str) -> str:
        """The id of the token that holds this boot: this one, durably, if nobody held it before.

        Raises StoreFailedError.
        """
        with self._lock:
            holder = self._known.get((emitter, boot))
            if holder is None:
                try:
                    holder = self._stored(emitter, boot) or self._store(emitter, boot, token_id)
                except DatabaseError as error:
                    raise StoreFailedError(f"the store cannot keep claims ({error.name})") from error
            self._known[emitter, boot] = holder
            self._known.move_to_end((emitter, boot))
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return holder

    def _store(self, emitter: str, boot: str, token_id: str) -> str:
        row = (emitter, boot, token_id, datetime.now(UTC))
        self._handle.insert("claims", ("emitter", "boot", "token_id", "first_seen"), [row])
        return token_id

    def _stored(self, emitter: str, boot: str) -> str | None:
        rows = self._handle.query(
            "SELECT token_id FROM claims WHERE emitter = {emitter:String} AND boot = {boot:String} "
            "ORDER BY first_seen LIMIT 1",
            {"emitter": emitter, "boot": boot},
        )
        return rows[0][0] if rows else None
