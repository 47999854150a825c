"""A real HTTP server per test, and nothing left running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine_hooks.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.close()
