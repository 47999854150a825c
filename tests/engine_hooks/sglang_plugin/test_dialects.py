"""What older engine versions call otherwise."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from engine_hooks.sglang_plugin.dialects import kv_of, ranks_of, row_of, salt_of
from tests.support import fake_sglang as fake

NEWER = SimpleNamespace(kv=fake.Kv(req_pool_idx=3, kv_allocated_len=32, kv_committed_len=20))
SINCE_0_5_16 = SimpleNamespace(req_pool_idx=3, kv_committed_len=20, kv=SimpleNamespace(kv_allocated_len=32))
OLDEST = SimpleNamespace(req_pool_idx=3, kv_committed_len=20, kv_allocated_len=32)


@pytest.mark.parametrize("request_", [NEWER, SINCE_0_5_16, OLDEST], ids=["0.5.19", "0.5.16", "0.5.11"])
def test_what_a_request_holds(request_: Any) -> None:
    kv = kv_of(request_)
    assert (kv.holds_kv, kv.req_pool_idx, kv.kv_committed_len, kv.kv_allocated_len) == (True, 3, 20, 32)
    assert row_of(request_) == 3


@pytest.mark.parametrize(
    "request_",
    [SimpleNamespace(kv=fake.Kv()), SimpleNamespace(req_pool_idx=None, kv=None), SimpleNamespace(req_pool_idx=None)],
    ids=["0.5.19", "0.5.16", "0.5.11"],
)
def test_a_request_that_holds_nothing(request_: Any) -> None:
    assert kv_of(request_).holds_kv is False


def test_the_salt_is_the_salt_or_what_stands_for_it() -> None:
    """Up to 0.5.17 there is no field for it: it arrives as the extra key."""
    assert salt_of(SimpleNamespace(cache_salt="salt", extra_key="key")) == "salt"
    assert salt_of(SimpleNamespace(cache_salt=None, extra_key="key")) is None
    assert salt_of(SimpleNamespace(extra_key="salt")) == "salt"


@pytest.fixture
def no_runtime_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.5.13 and older."""
    for name in ("sglang", "sglang.srt"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", None)


@pytest.mark.usefixtures("no_runtime_context")
def test_without_a_description_of_the_process_the_scheduler_knows_where_it_stands() -> None:
    oldest = SimpleNamespace(tp_rank=1)
    assert ranks_of(oldest).tp_rank == 1
    assert ranks_of(SimpleNamespace(ps=oldest)).tp_rank == 1
