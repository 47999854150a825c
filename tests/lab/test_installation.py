"""What an installation consists of: pinned, hashed packages, one link to the hooks, and public keys."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest

from engine_hooks.identity import parse_keys
from lab.engine import hooks_path, keys
from lab.engine.errors import LabError
from lab.engine.install import ALL_VERSIONS, MAIN, MORE_OVERLAYS, OVERLAYS, parts, require_installed
from lab.engine.paths import DIR_SETTING, HERE, REPOSITORY, LabPaths

PIN = re.compile(r"[a-z0-9._-]+==[0-9][0-9a-z.]* --hash=sha256:[0-9a-f]{64}")


def pins(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["engine.lock", "overlays.lock"])
def test_every_package_is_pinned_and_hashed(name: str) -> None:
    assert pins(name)
    assert [line for line in pins(name) if not PIN.fullmatch(line)] == []


def test_every_engine_version_is_locked() -> None:
    assert [line for line in pins("engine.lock") if line.startswith(f"sglang=={MAIN} ")]
    for version in (*OVERLAYS, *MORE_OVERLAYS):
        assert [line for line in pins("overlays.lock") if line.startswith(f"sglang=={version} ")]


def test_no_cuda_package_is_locked() -> None:
    """But for the bindings that ask a driver whether there is one."""
    named = {line.partition("==")[0] for line in pins("engine.lock")}
    assert {name for name in named if name.startswith(("nvidia", "triton"))} == {"nvidia-ml-py"}


def test_the_hooks_folder_holds_the_hooks_and_nothing_else(tmp_path: Path) -> None:
    hooks_path.make(tmp_path)
    packages = [path for path in tmp_path.iterdir() if path.suffix != ".dist-info"]
    assert [path.name for path in packages] == ["engine_hooks"]
    assert packages[0].resolve() == REPOSITORY / "engine_hooks"


def test_the_engine_finds_the_plugin_there(tmp_path: Path) -> None:
    hooks_path.make(tmp_path)
    hooks_path.make(tmp_path)  # again: no harm
    (found,) = distributions(path=[str(tmp_path)])
    (entry,) = found.entry_points.select(group="sglang.srt.plugins")
    assert (entry.name, entry.value) == ("pagewitness", "engine_hooks.sglang_plugin:register")


def test_a_missing_installation_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"run `python -m lab\.engine install`"):
        require_installed(LabPaths(tmp_path), MAIN)


def test_a_version_that_only_the_full_tests_want_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"run `python -m lab\.engine install --all`"):
        require_installed(LabPaths(tmp_path), MORE_OVERLAYS[0])


def test_an_installation_leaves_out_what_only_the_full_tests_want(tmp_path: Path) -> None:
    names = " ".join(part.name for part in parts(LabPaths(tmp_path)))
    assert [version for version in ALL_VERSIONS if version in names] == [*OVERLAYS, MAIN]


def test_an_unknown_version_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"0\.4\.0 is not known to the lab; there are 0\.5\.11, 0\.5\.15, 0\.5\.19"):
        require_installed(LabPaths(tmp_path), "0.4.0")


def test_the_lab_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DIR_SETTING, str(tmp_path))
    assert LabPaths.from_environment().root == tmp_path
    monkeypatch.delenv(DIR_SETTING)
    assert LabPaths.from_environment().root == REPOSITORY / ".lab"


def test_the_keys_are_three_different_ones_that_the_hooks_can_parse() -> None:
    parsed = [key for text in (keys.PSEUDONYM_KEY, keys.MAC_KEY, keys.EVIDENCE_KEY) for key in parse_keys(text)]
    assert [key.id for key in parsed] == ["lab-p", "lab-m", "lab-e"]
    assert len({key.secret for key in parsed}) == 3
