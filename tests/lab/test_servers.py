"""What the two servers of a pair are started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_hooks.settings import load
from lab.engine.install import MAIN, OVERLAYS
from lab.engine.paths import LabPaths
from lab.engine.servers import EMITTER_PREFIX, PairSettings, RunFolder, command_line, environment, python_path

PATHS = LabPaths(Path("/lab"))
RUN = RunFolder(Path("/lab/runs/one"))


def env(**settings: object) -> dict[str, str]:
    return environment("decode", PairSettings(version=MAIN, **settings), PATHS, RUN, Path("/scratch"))  # type: ignore[arg-type]


def test_nothing_is_inherited_but_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "x")
    monkeypatch.setenv("PYTHONPATH", "/of/the/shell")
    assert "SECRET_OF_THE_SHELL" not in env()
    assert "/of/the/shell" not in env()["PYTHONPATH"]


def test_the_hooks_get_settings_that_they_accept() -> None:
    settings = load(env(), scope="hooks")
    assert (settings.hooks, settings.ring_dir, settings.emitter) == (True, RUN.rings, EMITTER_PREFIX)
    assert settings.evidence_key is not None
    assert settings.mac_keys


def test_without_hooks_the_servers_can_neither_find_nor_configure_them() -> None:
    assert PATHS.hooks not in python_path(PairSettings(version=MAIN, hooks=False), PATHS)
    assert not [name for name in env(hooks=False) if name.startswith("PAGEWITNESS_")]


def test_the_truth_plugin_is_there_only_when_asked_for() -> None:
    assert "LAB_TRUTH_DIR" not in env()
    assert env(truth=True)["LAB_TRUTH_DIR"] == str(RUN.truth)
    assert "truth_plugin" not in env()["PYTHONPATH"]


def test_another_version_comes_before_the_environments_own() -> None:
    assert PATHS.overlay(OVERLAYS[0]) in python_path(PairSettings(version=OVERLAYS[0]), PATHS)
    assert not [folder for folder in python_path(PairSettings(version=MAIN), PATHS) if "overlays" in str(folder)]


def test_extra_environment_wins() -> None:
    assert env(environment={"PAGEWITNESS_HOOKS": "off"})["PAGEWITNESS_HOOKS"] == "off"


@pytest.mark.parametrize(("role", "tokens"), [("prefill", "7"), ("decode", "9")])
def test_each_role_gets_its_own_pool(role: str, tokens: str) -> None:
    command = command_line(role, PairSettings(version=MAIN, prefill_tokens=7, decode_tokens=9), PATHS)
    assert command[command.index("--max-total-tokens") + 1] == tokens
    assert command[command.index("--disaggregation-mode") + 1] == role


def test_an_argument_of_one_role_is_not_the_others() -> None:
    settings = PairSettings(version=MAIN, role_arguments={"decode": ("--one", "1")})
    assert command_line("decode", settings, PATHS)[-2:] == ["--one", "1"]
    assert "--one" not in command_line("prefill", settings, PATHS)


def test_two_ranks_are_bound_to_two_cores() -> None:
    command = command_line("decode", PairSettings(version=MAIN, ranks=2), PATHS)
    assert command[command.index("--tp-size") + 1] == "2"
    assert env(ranks=2)["SGLANG_CPU_OMP_THREADS_BIND"] == "0|1"


def test_forwards_are_slowed_for_the_truth_alone() -> None:
    assert env(truth=True, pause_ms={"prefill": 100})["LAB_TRUTH_PAUSE_MS"] == "prefill=100"
    assert "LAB_TRUTH_PAUSE_MS" not in env(pause_ms={"prefill": 100})


def test_the_model_is_served_by_name_and_not_by_path() -> None:
    command = command_line("decode", PairSettings(version=MAIN), PATHS)
    assert command[command.index("--served-model-name") + 1] == "lab-echo"


@pytest.mark.parametrize(("version", "has_it"), [("0.5.11", False), ("0.5.15", False), ("0.5.19", True)])
def test_an_engine_gets_no_argument_that_it_does_not_know(version: str, has_it: bool) -> None:
    command = command_line("decode", PairSettings(version=version), PATHS)
    assert ("--disaggregation-decode-retraction-backup" in command) is has_it
