"""The table of hook points, and the check that a place is what the table takes it for."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from engine_hooks.conventions import SPANS
from engine_hooks.sglang_plugin.table import TABLE, parse_version, targets_for
from engine_hooks.sglang_plugin.targets import NEWEST, OLDEST, Target, TargetError, Version, check
from tests.engine_hooks.sglang_plugin.support import Rig

VERSIONS = [(0, 5, patch) for patch in range(19, 24)]
MODULE = "an_engine_module"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def target(path: str, *uses: str) -> Target:
    return Target(f"{MODULE}.{path}", "before", "steps.x", (), uses)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.19", (0, 5, 19)),
        ("0.5.23.post1", (0, 5, 23)),
        ("0.6.0rc1", (0, 6, 0)),
        ("0.0.0.dev1", NEWEST),
        ("unknown", NEWEST),
    ],
)
def test_engine_versions(text: str, version: Version) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(("outside", "edge"), [((0, 5, 10), OLDEST), ((1, 0, 0), NEWEST)])
def test_a_version_outside_the_table_gets_the_nearest_edge(outside: Version, edge: Version) -> None:
    assert targets_for(outside) == targets_for(edge)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("backend", ["mooncake", "nixl", "mori"])
@pytest.mark.parametrize("function", ["send_metadata", "send"])
def test_one_hook_a_call_of_each_backend(version: Version, backend: str, function: str) -> None:
    """A base class and the class that overrides it must not both be hooked: the fact would come twice."""
    rows = [row for row in targets_for(version) if row.path.endswith(f".{function}") and row.backend in ("", backend)]
    assert len([row for row in rows if ".fake." not in row.path]) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_no_place_is_hooked_twice_on_the_same_side(version: Version) -> None:
    places = [(row.path, row.when) for row in targets_for(version)]
    assert len(places) == len(set(places))


def test_names_are_unique() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)


def test_every_row_has_its_handler_and_every_handler_its_row(decode: Rig) -> None:
    named = {row.handler for row in TABLE}
    known = {
        f"{part}.{name}"
        for part, handler in decode.parts.handlers.items()
        for name in dir(handler)
        if name.startswith(("before_", "after_"))
    }
    assert named == known


def test_facts_are_named_after_the_contract() -> None:
    spans = {span.name.removeprefix("pagewitness.") for span in SPANS}
    facts = {fact for row in TABLE for fact in row.facts}
    assert {fact for fact in facts if not any(fact == span or fact.startswith(f"{span}.") for span in spans)} == set()


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
