"""A real store for the verdicts about fleets, empty for each test of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from collector.store import Handle, Store
from detectors.queries import Queries
from tests.support.stores import empty, fresh_store


@pytest.fixture(scope="session")
def kept() -> Iterator[tuple[Store, Handle]]:
    with fresh_store() as store:
        yield store, store.handle()


@pytest.fixture
def opened(kept: tuple[Store, Handle]) -> Store:
    """A store with nothing in it."""
    empty(kept[1])
    return kept[0]


@pytest.fixture
def store(opened: Store, kept: tuple[Store, Handle]) -> Queries:
    """What detection reads and writes of it."""
    return kept[1]


@pytest.fixture
def post(opened: Store) -> Callable[[Sequence[bytes]], None]:
    def insert(bodies: Sequence[bytes]) -> None:
        opened.insert_otlp(b"".join(bodies))  # messages behind each other are one message with the parts of all

    return insert
