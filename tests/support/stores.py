"""Real stores for tests. The engine opens one directory a process: all tests of a process share it.

Making a database takes a second, emptying one a few milliseconds: a store that a test has closed is emptied for the
next one. A store that is full of other tests' evidence would be judged again by every pass.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from collector.store import Handle, Store, open_store

_numbers = itertools.count(1)
_closed: list[str] = []
"""Databases that no test has open."""
_TABLES = (
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND name != 'schema_migrations'"
    " AND engine NOT IN ('Null', 'View', 'MaterializedView')"
)


@cache
def shared_data_dir() -> Path:
    """The data directory of every store of this process, deleted at its end."""
    folder = Path(tempfile.mkdtemp(prefix="pagewitness-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def empty(handle: Handle) -> None:
    """Take everything out of a store but its tables."""
    for (table,) in handle.query(_TABLES):
        handle.command(f"TRUNCATE TABLE `{table}`")


@contextmanager
def fresh_store() -> Iterator[Store]:
    """An open store with nothing in it. Its tables must still be as they were when it is closed."""
    database = _closed.pop() if _closed else f"test_{next(_numbers)}"
    with open_store(shared_data_dir(), database=database) as store:
        handle = Handle(store.data_dir, database)
        empty(handle)
        handle.close()
        yield store
    _closed.append(database)
