"""The embedded case: no log between receiver and store."""

from __future__ import annotations

from collector.store import Receipt, Store


class DirectLog:
    """Writes straight to the store: an EvidenceLog whose receipts know each span."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, message: bytes) -> Receipt:
        """As :class:`collector.log.contract.EvidenceLog`."""
        return self._store.insert_otlp(message)
