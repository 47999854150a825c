"""A real store for detection, empty for each test of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from collector.store import Handle, Store
from detectors.queries import Queries
from tests.support.otlp import Fact, export
from tests.support.stores import empty, fresh_store

settings.register_profile("quick", max_examples=4)
settings.register_profile("thorough", max_examples=80)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


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
def post(opened: Store) -> Callable[[list[Fact]], None]:
    def insert(facts: list[Fact]) -> None:
        opened.insert_otlp(export(*facts))

    return insert
