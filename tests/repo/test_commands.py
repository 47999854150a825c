"""The commands that the pages name are there: make targets, console scripts, modules, and CI's script."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.repo.tree import ROOT, files, pyproject

PAGES = [path for path in files() if path.suffix == ".md"]


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", text, flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    named = set(
        re.findall(r"(?:`|^\s*)make ([a-z][a-z-]*)", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert named <= make_targets()


@pytest.mark.parametrize("page", [*PAGES, Path("Makefile")], ids=str)
def test_every_module_of_ours_that_is_run_exists(page: Path) -> None:
    named = set(re.findall(r"(?:python|\$\(PY\)) -m ([a-z_.]+)", (ROOT / page).read_text(encoding="utf-8")))
    for name in sorted(named):
        path = ROOT / name.replace(".", "/")
        if (ROOT / name.split(".")[0]).is_dir():
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name


@pytest.mark.parametrize("folder", [".", "engine_hooks"])
def test_every_console_script_can_be_imported(folder: str) -> None:
    for target in pyproject(folder)["project"]["scripts"].values():
        module, _, function = target.partition(":")
        assert callable(getattr(__import__(module, fromlist=[function]), function))


def test_help_names_every_target() -> None:
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True, env=os.environ | {"MAKEFLAGS": ""}
    )
    assert set(re.findall(r"^  make ([a-z-]+)", shown.stdout, flags=re.MULTILINE)) == make_targets()


def test_ci_runs_the_three_test_targets_in_order() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^make ([a-z-]+)$", script, flags=re.MULTILINE) == ["test", "test-slow", "test-engine"]
    assert "set -euo pipefail" in script
    assert os.access(ROOT / ".ci/run", os.X_OK)
