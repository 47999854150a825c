"""A real HTTP server per test, and one run of the real engine for all tests that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.engine_hooks.receiver import Receiver
from tests.engine_hooks.sglang_plugin.on_engine import Run, play


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """One run of the real engine for each version, made when it is first asked for."""
    return cache(lambda version: play(version, tmp_path_factory.mktemp(f"engine-{version}")))
