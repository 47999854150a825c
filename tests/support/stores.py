"""Real stores for tests. The engine opens one directory a process: all tests of a process share it, a database each."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from collector.store import Store, open_store

_numbers = itertools.count(1)


@cache
def shared_data_dir() -> Path:
    """The data directory of every store of this process, deleted at its end."""
    folder = Path(tempfile.mkdtemp(prefix="pagewitness-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def fresh_store() -> Iterator[Store]:
    """An open store with nothing in it."""
    with open_store(shared_data_dir(), database=f"test_{next(_numbers)}") as store:
        yield store
