"""The umbrella command: it loads what was asked for and nothing else, and hands the rest of the line on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from engine_hooks.version import VERSION
from tests.repo.tree import ROOT

HEAVY = {"torch", "numpy", "pandas", "chdb", "clickhouse_connect", "fastapi", "uvicorn", "httpx", "opentelemetry"}
OURS = {"collector", "detectors", "notify", "lab", "dashboards"}


def pagewitness(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagewitness", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def loaded_by(*arguments: str) -> set[str]:
    """Top-level modules that are loaded once the command has ended."""
    program = (
        "import sys, json, pagewitness\n"
        f"pagewitness.main({list(arguments)!r})\n"
        "print('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_version_is_that_of_the_hooks() -> None:
    assert pagewitness("--version").stdout == f"pagewitness {VERSION}\n"


@pytest.mark.parametrize(
    ("arguments", "stages"),
    [
        (["--version"], {"notify"}),  # its way of ending a command, and nothing more
        (["--help"], {"notify"}),
        (["serve", "--help"], {"notify"}),
        (["dashboards"], {"notify"}),
        (["hooks", "--help"], {"notify"}),
        (["collector", "--help"], {"notify", "collector"}),
        (["detectors", "--help"], {"notify", "detectors"}),
        (["lab", "--help"], {"notify", "lab"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_stage_is_loaded_when_it_is_asked_for(arguments: list[str], stages: set[str]) -> None:
    loaded = loaded_by(*arguments)
    assert loaded & OURS <= stages
    allowed = {"opentelemetry"} if arguments[0] == "hooks" else set()
    assert not loaded & (HEAVY - allowed)


@pytest.mark.parametrize("stage", ["hooks", "collector", "detectors", "lab"])
def test_help_after_a_stage_is_the_stages_own(stage: str) -> None:
    done = pagewitness(stage, "--help")
    assert done.returncode == 0
    words = {"hooks": "doctor", "collector": "token", "detectors": "rules", "lab": "demo"}
    assert words[stage] in done.stdout


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["serve", "--port", "x"], ["hooks", "nonsense"], ["detectors", "show", "x"]]
)
def test_what_does_not_exist_is_exit_2(arguments: list[str]) -> None:
    done = pagewitness(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_dashboards_say_that_there_are_none() -> None:
    done = pagewitness("dashboards")
    assert (done.returncode, done.stdout) == (0, "This version has no dashboard panels.\n")


def test_the_hooks_doctor_is_reached_through_the_umbrella_with_its_own_exit_code() -> None:
    done = pagewitness("hooks", "doctor", "--offline", "--json")
    assert json.loads(done.stdout)["exit"] == done.returncode
