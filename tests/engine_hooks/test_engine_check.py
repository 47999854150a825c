"""The doctor's look at the engine: imported in a process of its own, and judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.doctor import Check
from engine_hooks.engine_check import blind_facts, look
from tests.repo.tree import ROOT

Install = Callable[[str], dict[str, str]]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package with the engine's name and this text where this interpreter and its children find it."""

    def install(text: str) -> dict[str, str]:
        package = tmp_path / "sglang"
        package.mkdir()
        (package / "__init__.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        return dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}

    return install


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sglang", raising=False)


def named(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_without_an_engine_nobody_can_say_what_attaches() -> None:
    found, (check,) = look(os.environ, "control", "mooncake")
    assert found is None
    assert (check.name, check.status) == ("sglang", "blind")


def test_an_engine_that_lacks_the_hook_points_leaves_the_node_blind(engine: Install) -> None:
    found, checks = look(engine("__version__ = '0.5.23'"), "control", "mooncake")
    assert found is not None
    assert found["attached"] == 0
    assert {"page.read", "transfer.queued"} <= set(blind_facts(found))
    assert named(checks)["hook points"].status == "blind"
    assert named(checks)["hook points"].detail.startswith("0 of ")
    assert "page.read" in named(checks)["facts"].detail


def test_each_hook_point_says_where_it_runs_how_often_and_why_it_is_not_on(engine: Install) -> None:
    found, _ = look(engine("__version__ = '0.5.23'"), "exact", "nixl")
    assert found is not None
    for hook in found["hooks"]:
        assert hook["thread"]
        assert hook["cost"]
        assert hook["problem"]
    assert {hook["tier"] for hook in found["hooks"]} == {"control", "exact"}


def test_a_version_that_the_table_does_not_know_is_said(engine: Install) -> None:
    found, checks = look(engine("__version__ = '0.5.99'"), "control", "mooncake")
    assert found is not None
    assert not found["known"]
    assert (named(checks)["engine version"].status, "0.5.99" in named(checks)["engine version"].detail) == (
        "blind",
        True,
    )


def test_what_the_engine_prints_while_it_is_imported_is_not_the_answer(engine: Install) -> None:
    found, _ = look(engine("import os\nos.write(1, b'hello\\n')\n__version__ = '0.5.23'"), "control", "mooncake")
    assert found is not None


@pytest.mark.parametrize("text", ["raise RuntimeError('no driver')", "import os\nos.abort()"])
def test_an_engine_that_cannot_be_imported_is_a_failure_and_no_crash(text: str, engine: Install) -> None:
    found, checks = look(engine(text), "control", "mooncake")
    assert found is None
    assert named(checks)["hook points"].status == "fail"
    assert "cannot be imported" in named(checks)["hook points"].detail


def plugin(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, *names: str) -> Check:
    entries = [metadata.EntryPoint(name, "module:register", "sglang.srt.plugins") for name in names]
    monkeypatch.setattr(metadata, "entry_points", lambda **_: entries)
    return named(look(environ, "control", "mooncake")[1])["plugin"]


def test_an_engine_that_would_not_find_the_hooks(engine: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugin(engine("__version__ = '0.5.23'"), monkeypatch).status == "fail"


@pytest.mark.parametrize(("allowed", "status"), [("other", "fail"), ("other, pagewitness", "ok"), ("", "ok")])
def test_an_engine_that_is_told_which_plugins_to_load(
    allowed: str, status: str, engine: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ: Any = engine("__version__ = '0.5.23'") | {"SGLANG_PLUGINS": allowed}
    assert plugin(environ, monkeypatch, "pagewitness", "other").status == status
