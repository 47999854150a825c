"""No hook makes the scheduler's thread wait for a device: proved with a stand-in, inside the engine's environment.

There is no device here. See `device_standin` for what stands in for one, and for what it would not find.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab.engine.paths import REPOSITORY, LabPaths
from tests.engine_hooks.sglang_plugin.on_engine import ROLES

pytestmark = pytest.mark.engine

LATE = {
    "prefill": {"acquire:prefill": [16, 17, 18], "release:immediate": [16, 17, 18]},
    "decode": {"acquire:transfer": [16, 17, 18], "acquire:decode": [3], "release:immediate": [16, 17, 18, 19]},
}
"""Facts whose page ids come from the device, as the stand-in has them there."""
PLANTED = (
    "item", "tolist", "numpy", "cpu", "to the CPU", "int", "bool", "a condition", "index", "nonzero", "where", "unique",
    "a mask", "a blocking copy", "a copy into plain memory", "waiting for an event", "in", "formatting",
)  # fmt: skip


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """What the stand-in saw: a leg of each role, and each way to wait, planted in a hook."""
    command = [str(LabPaths.from_environment().python), "-m", "tests.engine_hooks.sglang_plugin.device_standin"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_hook_waits_for_the_device(said: dict[str, Any]) -> None:
    assert said["caught"] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_hook_did_its_work_meanwhile(said: dict[str, Any], role: str) -> None:
    assert said[role]["hook_errors"] == 0
    assert said[role]["complete"]
    assert "end:finished" in said[role]["words"]


@pytest.mark.parametrize("role", ROLES)
def test_page_ids_are_recorded_when_they_have_arrived_and_not_before(said: dict[str, Any], role: str) -> None:
    for word, pages in LATE[role].items():
        assert word not in said[role]["under_way"]
        assert said[role]["pages"][word] == pages


def test_the_last_fact_waits_for_them(said: dict[str, Any]) -> None:
    assert "end:finished" not in said["decode"]["under_way"]


@pytest.mark.parametrize("way", PLANTED)
def test_a_hook_that_waits_is_caught(said: dict[str, Any], way: str) -> None:
    assert said["planted"][way]


def test_no_planted_way_is_forgotten(said: dict[str, Any]) -> None:
    assert sorted(said["planted"]) == sorted(PLANTED)
