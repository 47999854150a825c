"""What is hooked, what is not, and what the node says about it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from engine_hooks.sglang_plugin.attach import Attachment, attach
from engine_hooks.sglang_plugin.boundary import Boundary
from engine_hooks.sglang_plugin.targets import Target
from tests.support import fake_sglang as fake

MODULE = "an_engine_module"
READS = Target(f"{MODULE}.run_batch", "after", "steps.after", ("page.read", "page.release"), ("batch",))
QUEUED = Target(f"{MODULE}.send", "before", "steps.before", ("transfer.queued",), (), "nixl")


class Steps:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def after(self, result: Any, batch: Any) -> None:
        self.calls.append((result, batch))
        raise RuntimeError

    def before(self, *_: Any) -> None: ...


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType(MODULE)
    module.run_batch = lambda batch: batch  # type: ignore[attr-defined]
    module.send = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    return fake.modules()["sglang.srt.plugins.hook_registry"]


def attached(registry: Any, *targets: Target) -> tuple[Attachment, Steps, Boundary]:
    steps, boundary = Steps(), Boundary(lambda values: None, lambda name: None)
    return attach(targets, {"steps": steps}, boundary, registry), steps, boundary


def test_a_hook_is_registered_behind_the_wall(registry: Any) -> None:
    _, steps, _ = attached(registry, READS)
    ((path, hook, kind),) = registry.HookRegistry.registered
    assert (path, kind) == (READS.path, registry.HookType.AFTER)
    assert hook("result", "batch") is None
    assert steps.calls == [("result", "batch")]


def test_what_the_engine_applied_is_on(registry: Any) -> None:
    attachment, _, _ = attached(registry, READS)
    registry.HookRegistry.apply()
    assert attachment.attached("mooncake") == [READS.name]
    assert attachment.missing("mooncake") == []


def test_what_the_engine_did_not_apply_is_missing(registry: Any) -> None:
    attachment, _, _ = attached(registry, READS)
    registry.HookRegistry.apply(but=READS.path)
    assert attachment.attached("mooncake") == []
    assert attachment.missing("mooncake") == [READS.name, "page.read", "page.release"]


def test_what_failed_its_check_is_missing_and_not_registered(registry: Any) -> None:
    gone = Target(f"{MODULE}.gone", "before", "steps.before", ("response",))
    attachment, _, _ = attached(registry, gone)
    assert registry.HookRegistry.registered == []
    assert attachment.missing("mooncake") == [gone.name, "response"]


def test_a_place_that_is_hooked_on_one_side_can_be_missing_on_the_other(registry: Any) -> None:
    before = Target(READS.path, "before", "steps.before", ("response",), ("a_parameter_that_is_gone",))
    attachment, _, _ = attached(registry, READS, before)
    registry.HookRegistry.apply()
    assert attachment.attached("mooncake") == [READS.name]
    assert attachment.missing("mooncake") == [before.name, "response"]


def test_a_module_that_cannot_be_imported_is_missing_not_an_error(
    registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def find_spec(self, name: str, *_: Any) -> None:
            if name.startswith("a_broken_module"):
                raise OSError("cannot load a library")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    broken = Target("a_broken_module.Class.method", "before", "steps.before", ("response",))
    attachment, _, _ = attached(registry, broken)
    assert attachment.missing("mooncake") == [broken.name, "response"]


def test_a_hook_of_another_backend_is_neither_on_nor_missing(registry: Any) -> None:
    attachment, _, _ = attached(registry, QUEUED)
    assert attachment.missing("mooncake") == attachment.attached("mooncake") == []
    assert attachment.missing("nixl") == [QUEUED.name, "transfer.queued"]


def test_a_hook_that_was_switched_off_is_missing(registry: Any) -> None:
    attachment, _, boundary = attached(registry, READS)
    registry.HookRegistry.apply()
    boundary.switched_off.add(READS.name)
    assert attachment.missing("mooncake") == [READS.name, "page.read", "page.release"]
