"""Every engine version that the hooks know and the lab can install: what attaches on each, without starting it.

The traffic on each is in `test_plugin_on_engine`. Needs `python -m lab.engine install --all`.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.sglang_plugin.table import VERSIONS, parse_version, relevant, targets_for
from lab.engine.install import ALL_VERSIONS
from lab.engine.matrix import environment, survey
from lab.engine.paths import LabPaths
from tests.engine_hooks.sglang_plugin.on_engine import BLIND, tier_of

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(900)]

SURVEYS = [(version, tier) for version in ALL_VERSIONS for tier in sorted({"exact", tier_of(version)})]
"""The exact tier of each version, which has every hook point, and the tier in which it runs."""


@pytest.fixture(scope="module")
def paths() -> LabPaths:
    return LabPaths.from_environment()


@cache
def surveyed(version: str, tier: str = "exact") -> dict[str, Any]:
    """The survey of a version, made when it is first asked for: each imports an engine."""
    return survey(version, LabPaths.from_environment(), tier)


@pytest.mark.parametrize(("version", "tier"), SURVEYS)
def test_every_hook_point_of_a_version_attaches_and_what_is_blind_is_listed(version: str, tier: str) -> None:
    found = surveyed(version, tier)
    wanted = relevant(targets_for(parse_version(version), tier), "mooncake")
    assert sorted(hook["name"] for hook in found["hooks"]) == sorted(row.name for row in wanted)
    assert {hook["name"]: hook["problem"] for hook in found["hooks"] if hook["problem"]} == {}
    assert (found["known"], found["attached"]) == (True, len(found["hooks"]))
    assert found["missing"] == BLIND[version]


def test_an_engine_of_another_version_gets_what_fits_it_and_says_so(paths: LabPaths) -> None:
    """The oldest engine with a version that nobody knows: its own hook points are found all the same."""
    found = run_survey("0.5.11", paths, "99.0.0")
    assert not found["known"]
    assert [hook["name"] for hook in found["hooks"]] == [hook["name"] for hook in surveyed("0.5.11")["hooks"]]
    assert found["missing"] == [*BLIND["0.5.11"], "version.unknown"]


def run_survey(version: str, paths: LabPaths, says: str) -> dict[str, Any]:
    """What the survey finds if the engine said this of its version."""
    program = f"import json, sys; from engine_hooks.sglang_plugin.survey import survey; \
        print(chr(10) + json.dumps(survey({says!r}, 'exact', 'mooncake')))"
    command = [str(paths.python), "-c", program]
    done = subprocess.run(command, env=environment(version, paths), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_doctor_says_the_same_in_the_engines_environment(paths: LabPaths) -> None:
    command = [str(paths.python), "-m", "engine_hooks.cli", "doctor", "--offline", "--json"]
    done = subprocess.run(command, env=environment("0.5.15", paths), capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["engine"]["missing"] == BLIND["0.5.15"]
    assert found["exit"] == done.returncode == 1  # no evidence key, and the lab's engine has no agent beside it
    assert {check["name"]: check["status"] for check in found["checks"]}["facts"] == "blind"


def test_the_versions_of_the_lab_are_versions_of_the_table() -> None:
    assert {tuple(map(int, version.split("."))) for version in ALL_VERSIONS} <= set(VERSIONS)


def test_the_hooks_of_the_lab_are_those_of_this_tree(paths: LabPaths) -> None:
    assert (paths.hooks / "engine_hooks").resolve() == Path(__file__).resolve().parents[2] / "engine_hooks"
