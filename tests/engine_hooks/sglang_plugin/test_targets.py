"""The check that a place in the engine is what the table of hook points takes it for."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine_hooks.sglang_plugin.targets import Target, TargetError, check, problem

MODULE = "an_engine_module"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def target(path: str, *uses: str) -> Target:
    return Target(f"{MODULE}.{path}", "before", "steps.x", (), uses)


def test_a_function_and_a_method_with_their_parameters_pass(module: ModuleType) -> None:
    def release(req: Any, tree_cache: Any) -> None: ...

    class Scheduler:
        def run_batch(self, batch: Any) -> None: ...

    module.release, module.Scheduler = release, Scheduler  # type: ignore[attr-defined]
    check(target("release", "req", "tree_cache"))
    check(target("Scheduler.run_batch", "batch"))


def test_what_is_not_there_is_refused(module: ModuleType) -> None:
    with pytest.raises(TargetError, match="no release in an_engine_module"):
        check(target("release"))
    with pytest.raises(TargetError, match="no Scheduler in an_engine_module"):
        check(target("Scheduler.run_batch"))


def test_what_a_class_only_inherits_is_refused(module: ModuleType) -> None:
    class Common:
        def send(self, kv_indices: Any) -> None: ...

    class Mooncake(Common):
        pass

    module.Mooncake = Mooncake  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="only inherits send"):
        check(target("Mooncake.send", "kv_indices"))


def test_a_parameter_that_is_gone_is_refused_by_name(module: ModuleType) -> None:
    def release(req: Any) -> None: ...

    module.release = release  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="no parameter tree_cache"):
        check(target("release", "req", "tree_cache"))


def traced(function: Callable[..., None]) -> Callable[..., None]:
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        function(self, *args, **kwargs)

    return wrapper


def wrapped(function: Callable[..., None]) -> Callable[..., None]:
    return functools.wraps(function)(traced(function))


@pytest.mark.parametrize("decorator", [traced, wrapped])
def test_a_decorator_does_not_hide_the_parameters(module: ModuleType, decorator: Callable[..., Any]) -> None:
    """SGLang traces Mooncake's `send` with a decorator that does not say what it wraps."""

    class Sender:
        @decorator
        def send(self, kv_indices: Any, num_kv_tokens: Any = None) -> None: ...

    module.Sender = Sender  # type: ignore[attr-defined]
    check(target("Sender.send", "kv_indices", "num_kv_tokens"))
    with pytest.raises(TargetError):
        check(target("Sender.send", "other"))


@pytest.fixture
def heirs(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of a backend, whose classes build on `an_engine_module.Common`."""

    class Common:
        def send(self, kv_indices: Any) -> None: ...

    module.Common = Common  # type: ignore[attr-defined]
    backend = ModuleType("a_backend")
    monkeypatch.setitem(sys.modules, "a_backend", backend)
    return backend


COMMON = Target(f"{MODULE}.Common.send", "before", "steps.x", (), heirs=("a_backend", "a_backend_that_is_not_here"))


def test_a_method_that_a_backend_overrides_is_refused(module: ModuleType, heirs: ModuleType) -> None:
    """The hook would sit on a method that nobody calls, and the node would look complete."""
    check(COMMON)
    heirs.Own = type("Own", (module.Common,), {"send": lambda self, kv_indices: None})  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="Own overrides send"):
        check(COMMON)


def test_a_method_that_a_backend_overrides_and_calls_is_hooked(module: ModuleType, heirs: ModuleType) -> None:
    class Own(module.Common):  # type: ignore[name-defined, misc]
        def send(self, kv_indices: Any) -> None:
            super().send(kv_indices)

    heirs.Own = Own  # type: ignore[attr-defined]
    check(COMMON)


def test_a_problem_is_a_sentence_and_none_is_empty(module: ModuleType) -> None:
    module.release = lambda req: None  # type: ignore[attr-defined]
    assert problem(target("release", "req")) == ""
    assert problem(target("acquire")) == "no acquire in an_engine_module"


def test_a_module_whose_needs_are_not_here_is_named_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_module.py").write_text("import a_package_that_is_not_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = problem(Target("needy_module.Class.method", "before", "steps.x", ()))
    assert found == "needy_module cannot be imported: No module named 'a_package_that_is_not_here'"
