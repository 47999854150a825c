"""What is hooked, what is not, and what the node says about it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from engine_hooks.sglang_plugin.attach import UNKNOWN_VERSION, Attachment, attach, attach_version
from engine_hooks.sglang_plugin.boundary import Boundary
from engine_hooks.sglang_plugin.table import TABLE, parse_version, targets_for
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


def of_version(version: str, tier: str = "control") -> Attachment:
    """What is known of an engine of this version whose every hook point is on."""
    rows = list(targets_for(parse_version(version), tier))
    return Attachment(registered=rows, version=version, tier=tier)


def test_a_fact_that_nothing_supplies_in_this_version_is_missing() -> None:
    assert of_version("0.5.19").missing("mooncake") == ["transfer.landed"]
    assert of_version("0.5.23").missing("mooncake") == []


def test_an_unknown_version_is_said_and_is_no_fact() -> None:
    """A rule looks for facts in the list: none goes blind by this word."""
    assert of_version("0.5.24").missing("mooncake") == [UNKNOWN_VERSION]
    assert UNKNOWN_VERSION not in {fact for row in TABLE for fact in row.facts}


def test_a_changed_signature_disables_that_hook_and_no_other(registry: Any) -> None:
    changed = Target(f"{MODULE}.send", "before", "steps.before", ("transfer.queued",), ("a_parameter_that_is_gone",))
    attachment, _, _ = attached(registry, READS, changed)
    registry.HookRegistry.apply()
    assert attachment.attached("mooncake") == [READS.name]
    assert attachment.missing("mooncake") == [changed.name, "transfer.queued"]


def test_an_engine_without_a_single_place_is_attached_to_nothing_and_runs(registry: Any) -> None:
    attachment = attach_version("0.5.23", "control", {}, Boundary(lambda values: None, lambda name: None), registry)
    assert attachment.attached("mooncake") == []
    assert {"page.read", "transfer.queued", "node.config"} <= set(attachment.missing("mooncake"))


def test_the_engines_log_says_what_is_on_and_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    of_version("0.5.19").report("mooncake")
    on, missing = (record.getMessage() for record in caplog.records)
    assert "hook points are on in SGLang 0.5.19, control tier" in on
    assert missing.endswith("missing: transfer.landed")


def test_where_nothing_is_missing_the_log_has_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    of_version("0.5.23").report("mooncake")
    assert [record.levelname for record in caplog.records] == ["INFO"]
