"""A real store for detection, shared by the tests of this folder; evidence of each test has ids of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from collector.store import Store
from detectors.queries import Queries
from tests.support.otlp import Fact, export
from tests.support.stores import fresh_store

settings.register_profile("quick", max_examples=4)
settings.register_profile("thorough", max_examples=80)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session")
def opened() -> Iterator[Store]:
    with fresh_store() as store:
        yield store


@pytest.fixture(scope="session")
def store(opened: Store) -> Queries:
    return opened.handle()


@pytest.fixture
def alone() -> Iterator[Store]:
    """A store with nothing in it, for what depends on every emitter there is (the watermark)."""
    with fresh_store() as store:
        yield store


@pytest.fixture
def post(opened: Store) -> Callable[[list[Fact]], None]:
    def insert(facts: list[Fact]) -> None:
        opened.insert_otlp(export(*facts))

    return insert
