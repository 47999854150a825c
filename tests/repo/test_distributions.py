"""Two distributions of one tree: what each holds, what it asks for, and that both build from their own sources."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from engine_hooks.version import VERSION
from tests.repo.tree import ROOT, files, pyproject

PACKAGES = ("collector", "detectors", "dashboards", "notify", "lab")


def expected(*prefixes: str) -> set[str]:
    """What git tracks below these folders."""
    return {str(path) for path in files() if path.parts[0] in prefixes}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each distribution's sdist, and the wheel made from that sdist (never from the tree)."""
    out = tmp_path_factory.mktemp("dist")
    for project in (ROOT / "engine_hooks", ROOT):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(project)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return {path.name: path for path in out.iterdir()}


def wheel_files(wheel: Path) -> set[str]:
    """Its files, without the metadata of the wheel itself (the lab's stand-ins have metadata of their own)."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}


def in_wheel(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info/{name}").decode()


def metadata(wheel: Path) -> Message:
    return message_from_string(in_wheel(wheel, "METADATA"))


def sdist_files(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def hooks_wheel(built: dict[str, Path]) -> Path:
    return built[f"pagewitness_hooks-{VERSION}-py3-none-any.whl"]


@pytest.fixture(scope="module")
def wheel(built: dict[str, Path]) -> Path:
    return built[f"pagewitness-{VERSION}-py3-none-any.whl"]


def test_the_wheel_holds_every_stage_but_the_hooks(wheel: Path) -> None:
    assert wheel_files(wheel) == expected(*PACKAGES) | {"pagewitness.py"}


def test_the_wheel_holds_the_data_that_the_code_reads(wheel: Path) -> None:
    suffixes = {Path(name).suffix for name in wheel_files(wheel)}
    assert {".sql", ".yaml", ".json"} <= suffixes


def test_the_hooks_wheel_holds_the_hooks_alone(hooks_wheel: Path) -> None:
    assert wheel_files(hooks_wheel) == {name for name in expected("engine_hooks") if name.endswith(".py")}


def test_the_wheel_asks_for_the_hooks_of_its_own_version(wheel: Path) -> None:
    assert f"pagewitness-hooks=={VERSION}" in (metadata(wheel).get_all("Requires-Dist") or [])


def test_the_hooks_wheel_asks_for_opentelemetry_and_nothing_else(hooks_wheel: Path) -> None:
    wanted = metadata(hooks_wheel).get_all("Requires-Dist") or []
    assert wanted
    assert all(requirement.startswith("opentelemetry-") for requirement in wanted)


def test_the_commands_are_installed(wheel: Path, hooks_wheel: Path) -> None:
    assert "pagewitness = pagewitness:main" in in_wheel(wheel, "entry_points.txt")
    assert "notify = notify.cli:main" in in_wheel(wheel, "entry_points.txt")
    assert "pagewitness-hooks = engine_hooks.cli:main" in in_wheel(hooks_wheel, "entry_points.txt")


def test_the_engine_finds_the_plugin(hooks_wheel: Path) -> None:
    entry = "[sglang.srt.plugins]\npagewitness = engine_hooks.sglang_plugin:register"
    assert entry in in_wheel(hooks_wheel, "entry_points.txt")


@pytest.mark.parametrize("name", ["wheel", "hooks_wheel"])
def test_each_wheel_carries_the_licence(request: pytest.FixtureRequest, name: str) -> None:
    carried = in_wheel(request.getfixturevalue(name), "licenses/LICENSE")
    assert carried == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_sources_of_each_are_enough_to_build_it_and_no_more(built: dict[str, Path]) -> None:
    ours = sdist_files(built[f"pagewitness-{VERSION}.tar.gz"])
    around = {
        "pyproject.toml",
        "hatch_build.py",
        "engine_hooks/version.py",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
    }
    assert ours - {".gitignore"} == expected(*PACKAGES) | {"pagewitness.py"} | around

    hooks = sdist_files(built[f"pagewitness_hooks-{VERSION}.tar.gz"])
    assert hooks - {".gitignore", "PKG-INFO"} == {
        name.removeprefix("engine_hooks/") for name in expected("engine_hooks")
    }


def test_the_version_is_declared_once() -> None:
    declarations = [
        str(path)
        for path in files()
        if path.suffix in {".py", ".toml"} and f'"{VERSION}"' in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert declarations == ["engine_hooks/version.py"]
    assert all("version" in pyproject(folder)["project"]["dynamic"] for folder in (".", "engine_hooks"))


@pytest.mark.slow
def test_the_hooks_install_and_run_with_nothing_but_what_they_ask_for(hooks_wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--constraint", str(unhashed_lock(tmp_path)), str(hooks_wheel)], check=True)
    shown = subprocess.run(
        [str(python.parent / "pagewitness-hooks"), "--help"], check=True, capture_output=True, text=True
    )
    assert "agent" in shown.stdout
    assert "doctor" in shown.stdout


def unhashed_lock(folder: Path) -> Path:
    """The pins of constraints.txt without their hashes: pip takes no hash for a wheel made just now."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = folder / "pins.txt"
    pins.write_text("\n".join(line.removesuffix(" \\") for line in lines if "==" in line), encoding="utf-8")
    return pins
