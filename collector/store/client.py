"""Opens the store: the lock, the database, its migrations, the writer."""

from __future__ import annotations

import threading
from pathlib import Path

from collector.store.claims import Claims
from collector.store.handle import Handle
from collector.store.lock import DirectoryLock, StoreBusy
from collector.store.migrate import load_migrations, migrate
from collector.store.receipt import Receipt
from collector.store.turns import Turns
from collector.store.writer import EvidenceWriter

_guard = threading.Lock()
_open: dict[Path, tuple[DirectoryLock, set[str]]] = {}
"""What this process holds: for each data directory its lock, and the databases in it that are open."""


class Store:
    """An open store. Made by :func:`open_store`; close it, or use it in a `with`."""

    def __init__(self, data_dir: Path, database: str) -> None:
        self.data_dir = data_dir
        self.database = database
        self._handles: list[Handle] = []
        self._closed = False
        self.claims = Claims(self.handle())
        self._turns = Turns(EvidenceWriter(self.handle()).insert)

    def handle(self) -> Handle:
        """A further handle. Queries of one handle queue behind each other, so each part of the program has its own."""
        handle = Handle(self.data_dir, self.database)
        self._handles.append(handle)
        return handle

    def insert_otlp(self, body: bytes) -> Receipt:
        """Store one serialised ExportTraceServiceRequest; durable when it returns. Blocks; any thread may call it.

        The same evidence may come again, in this or another batch, in any order: nothing changes. Raises
        BodyRefusedError if the store cannot read it, with nothing stored; StoreFailedError if it should come again.
        """
        return self._turns.insert(body)

    def close(self) -> None:
        """Close every handle, then let go of the directory. Waits for queries that are running; twice is once."""
        if self._closed:
            return
        self._closed = True
        for handle in self._handles:
            handle.close()
        _let_go(self.data_dir, self.database)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(data_dir: Path, database: str = "pagewitness") -> Store:
    """Open the store in this directory, making what is missing, and bring its tables up to this version.

    One process holds a directory. That process may open several databases in it, each once: the engine allows one
    directory a process, so tests have a database each. Raises StoreBusy, MigrationError, or OSError for a directory
    that cannot be used.
    """
    directory = data_dir.resolve()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _take(directory, database)
    try:
        root = Handle(directory, "default")
        try:
            root.command(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        finally:
            root.close()
        own = Handle(directory, database)
        try:
            migrate(own, load_migrations())
        finally:
            own.close()
        return Store(directory, database)
    except BaseException:
        _let_go(directory, database)
        raise


def _take(directory: Path, database: str) -> None:
    with _guard:
        others = [path for path in _open if path != directory]
        if others:
            raise StoreBusy(f"this process has {others[0]} open, and the engine opens one directory a process")
        if directory not in _open:
            _open[directory] = (DirectoryLock(directory), set())
        _, databases = _open[directory]
        if database in databases:
            raise StoreBusy(f"this process has the database {database} in {directory} open already")
        databases.add(database)


def _let_go(directory: Path, database: str) -> None:
    with _guard:
        lock, databases = _open.get(directory, (None, set()))
        databases.discard(database)
        if lock is not None and not databases:
            del _open[directory]
            lock.release()
