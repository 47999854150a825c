"""A real store for the verdicts about fleets, shared by the tests of this folder; each fleet has ids of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from collector.store import Store
from detectors.queries import Queries
from tests.support.stores import fresh_store


@pytest.fixture(scope="session")
def opened() -> Iterator[Store]:
    with fresh_store() as store:
        yield store


@pytest.fixture(scope="session")
def store(opened: Store) -> Queries:
    return opened.handle()


@pytest.fixture
def post(opened: Store) -> Callable[[Sequence[bytes]], None]:
    def insert(bodies: Sequence[bytes]) -> None:
        opened.insert_otlp(b"".join(bodies))  # messages behind each other are one message with the parts of all

    return insert
