"""One store and one receiver for the tests of this folder; each test has a boot of its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from collector.receiver import create_receiver
from collector.store import Handle, Store
from collector.tokens import TokenFile
from tests.support.otlp import Fact, fact
from tests.support.receivers import Sender, sender, served
from tests.support.stores import fresh_store

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    with fresh_store() as opened:
        yield opened


@pytest.fixture(scope="session")
def handle(store: Store) -> Handle:
    return store.handle()


@pytest.fixture(scope="session")
def url(store: Store) -> Iterator[str]:
    """The URL of a receiver on the store."""
    with served(create_receiver(store, TokenFile(store.data_dir))) as address:
        yield address


@pytest.fixture(scope="session")
def host1(store: Store, url: str) -> Sender:
    """A sender for the emitters host1/..."""
    return sender(url, store.data_dir, "host1")


@pytest.fixture
def boot() -> str:
    return secrets.token_hex(16)


@pytest.fixture
def made(boot: str) -> Callable[..., Fact]:
    """`tests.support.otlp.fact`, with the boot of this test."""
    return partial(fact, boot=boot)


@pytest.fixture
def facts(handle: Handle, boot: str) -> Rows:
    """Columns of what `facts` has of this test's boot, by seq."""

    def select(columns: str) -> list[dict[str, Any]]:
        return handle.rows(f"SELECT {columns} FROM facts WHERE boot = {{boot:String}} ORDER BY seq", {"boot": boot})

    return select


@pytest.fixture
def rejects(handle: Handle, boot: str) -> Callable[[], dict[int | None, str]]:
    """Reasons of the rejects of this test's boot, by seq."""

    def select() -> dict[int | None, str]:
        sql = "SELECT seq, reason FROM evidence_rejects WHERE boot = {boot:String}"
        return dict(handle.query(sql, {"boot": boot}))

    return select
