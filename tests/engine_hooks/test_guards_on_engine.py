"""The engine's own guards with the hooks on them: its own code, set off without a server (see `guards_on_engine`).

None of them can be provoked in an engine that serves on a CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from lab.engine.paths import REPOSITORY, LabPaths
from lab.engine.servers import PairSettings, python_path

pytestmark = [pytest.mark.engine, pytest.mark.timeout(200)]

HAS_CHECKSUM, HAS_NONE = "0.5.23", "0.5.19"
VERSIONS = (HAS_NONE, HAS_CHECKSUM)


@pytest.fixture(scope="module")
def guards() -> Callable[[str], dict[str, Any]]:
    """What was recorded when each guard of a version was set off."""
    return cache(set_off)


def set_off(version: str) -> dict[str, Any]:
    paths = LabPaths.from_environment()
    command = [str(paths.python), "-m", "tests.engine_hooks.sglang_plugin.guards_on_engine"]
    if version != HAS_CHECKSUM:
        command.append("--without-checksum")
    folders = os.pathsep.join(map(str, python_path(PairSettings(version, hooks=False), paths)))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": folders, "SGLANG_USE_CPU_ENGINE": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("mode", "action"), [("logs", "logged"), ("raises", "raised")])
def test_a_canarys_violation_names_the_request(
    guards: Callable[[str], dict[str, Any]], version: str, mode: str, action: str
) -> None:
    (alarm,) = guards(version)[f"canary that {mode}"]["alarms"]
    assert alarm["of a leg"]
    assert (alarm["alarm.action"], alarm["alarm.reason"]) == (action, "chain")
    assert (alarm["row"], alarm["token.position"]) == ("1", "5")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("slot", "reason"), [("another room", "room_mismatch"), ("no room", "room_missing")])
def test_the_room_check_names_the_request_and_the_slot(
    guards: Callable[[str], dict[str, Any]], version: str, slot: str, reason: str
) -> None:
    said = guards(version)[slot]
    assert said["words"][1:] == ["transfer:reserved", "transfer:refused", "slot.use:read", "alarm:room_check"]
    (alarm,) = said["alarms"]
    assert alarm["of a leg"]
    assert (alarm["alarm.action"], alarm["alarm.reason"], alarm["slot"]) == ("aborted", reason, "2")


def test_a_checksum_mismatch_names_the_request(guards: Callable[[str], dict[str, Any]]) -> None:
    (alarm,) = guards(HAS_CHECKSUM)["checksum"]["alarms"]
    assert alarm["of a leg"]
    assert (alarm["alarm.action"], alarm["alarm.reason"]) == ("aborted", "checksum")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_configuration_says_which_protections_the_engines_code_has(
    guards: Callable[[str], dict[str, Any]], version: str
) -> None:
    assert guards(version)["protections"] == ["room_check", "deferred_release=30"]
