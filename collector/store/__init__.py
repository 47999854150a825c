"""The store of evidence: ClickHouse, embedded. It decodes OTLP itself, and keeps what the contract has, no more."""

from collector.store.client import Store, open_store
from collector.store.errors import BodyRefusedError, StoreFailedError
from collector.store.handle import Handle
from collector.store.lock import StoreBusy
from collector.store.migrate import MigrationError
from collector.store.receipt import Receipt

__all__ = [
    "BodyRefusedError",
    "Handle",
    "MigrationError",
    "Receipt",
    "Store",
    "StoreBusy",
    "StoreFailedError",
    "open_store",
]
