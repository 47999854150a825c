"""Installs the engine into an environment of its own. Idempotent: a second run does nothing and says so.

`engine.lock` has an exact version and hash of every package; one set of packages serves all the engine versions in
`VERSIONS`, so another version is that one package in a folder of its own, first on PYTHONPATH. pip runs with
``--no-deps`` throughout: a resolver that sees torch brings 2 GB of CUDA packages for which this machine has no use.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.engine import cuda_stub, hooks_path, tenants
from lab.engine.errors import LabError
from lab.engine.paths import HERE, LabPaths
from lab.engine.progress import Say, say_on_stderr

MAIN = "0.5.23"
"""The engine version of `engine.lock`."""

OVERLAYS = ("0.5.19",)
"""Further versions that run on the same packages."""

MORE_OVERLAYS = ("0.5.11", "0.5.15", "0.5.20", "0.5.22")
"""Versions that run on them too, and that only the full tests want: `install` leaves them out unless it is asked."""

VERSIONS = (*OVERLAYS, MAIN)
ALL_VERSIONS = tuple(
    sorted((*MORE_OVERLAYS, *VERSIONS), key=lambda version: [int(part) for part in version.split(".")])
)

PYTHON = "3.11"
"""The lock is made for this CPython, on Linux x86-64."""

SYSTEM_PACKAGES = (
    "libibverbs1", "ibverbs-providers", "libnuma1", "librdmacm1",  # Mooncake links them
    "iproute2",  # the network namespace
    "binutils", "gcc", "libc6-dev",  # the stand-in for the CUDA libraries
)  # fmt: skip

_LOCK_FILE = HERE / "engine.lock"
_OVERLAY_LOCK = HERE / "overlays.lock"
_MODEL_SCRIPT = HERE / "model.py"


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is made once. Its `mark` is a file that holds `stamp` when it is there and up to date."""

    name: str
    mark: Path
    stamp: str
    make: Callable[[], None]

    @property
    def current(self) -> bool:
        """Whether there is nothing to do."""
        return self.mark.exists() and self.mark.read_text() == self.stamp


def parts(paths: LabPaths, overlays: tuple[str, ...] = OVERLAYS) -> list[Part]:
    """Everything that an installation with these overlays consists of, in order: a later part may need an earlier."""
    words = json.dumps(
        {
            "markers": [tenant.marker for tenant in tenants.TENANTS],
            "openings": [tenants.opening(number) for number in range(tenants.OPENINGS)],
        }
    )
    environment = paths.venv / "lab-stamp"
    return [
        Part(f"SGLang {MAIN} (800 MB to download)", environment, _digest(_LOCK_FILE), lambda: _environment(paths)),
        Part(
            "the stand-in for CUDA", paths.venv / "cuda-stamp", _digest(Path(cuda_stub.__file__)), lambda: _cuda(paths)
        ),
        *(_overlay_part(paths, version) for version in overlays),
        Part("the echo model", paths.model / "lab-stamp", _digest(_MODEL_SCRIPT, words), lambda: _model(paths, words)),
    ]


def install(paths: LabPaths, say: Say = say_on_stderr, *, everything: bool = False) -> None:
    """Make every part in `paths.root` that is not there or not up to date; with `everything`, also `MORE_OVERLAYS`.

    Raises LabError when a tool is missing or fails; a part that was begun has no mark, and is begun again next time.
    """
    paths.root.mkdir(parents=True, exist_ok=True)
    versions = ALL_VERSIONS if everything else VERSIONS
    with _only_one(paths.lock, say):
        _system_packages(say)
        for part in parts(paths, tuple(version for version in versions if version != MAIN)):
            if part.current:
                continue
            say(f"installing {part.name} into {paths.root}")
            part.make()
            part.mark.write_text(part.stamp)
        hooks_path.make(paths.hooks)
    say(f"engine lab ready in {paths.root}: SGLang {', '.join(versions)}")


def require_installed(paths: LabPaths, version: str) -> None:
    """Raises LabError unless this version is known, installed and up to date."""
    if version not in ALL_VERSIONS:
        raise LabError(f"engine version {version} is not known to the lab; there are {', '.join(ALL_VERSIONS)}")
    wanted = OVERLAYS if version in VERSIONS else (version,)
    missing = [part.name for part in parts(paths, wanted) if not part.current]
    if missing or not paths.hooks.exists():
        what = missing[0] if missing else "the hooks' folder"
        more = "" if version in VERSIONS else " --all"
        raise LabError(f"{what} is not installed, or not up to date: run `python -m lab.engine install{more}`")


@contextmanager
def _only_one(lock: Path, say: Say) -> Iterator[None]:
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another installation is at work in {lock.parent}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str], doing: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise LabError(f"{doing} failed (exit {done.returncode}):\n{done.stdout.strip()[-2000:]}")


def _system_packages(say: Say) -> None:
    missing = [name for name in SYSTEM_PACKAGES if not _has_system_package(name)]
    if not missing:
        return
    if os.geteuid() != 0:
        raise LabError(f"system packages are missing; as root run: apt-get install {' '.join(missing)}")
    say(f"installing system packages: {' '.join(missing)}")
    _run(["apt-get", "update", "-qq"], "apt-get update")
    os.environ.setdefault("DEBIAN_FRONTEND", "noninteractive")
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], "apt-get install")


def _has_system_package(name: str) -> bool:
    if shutil.which("dpkg-query") is None:
        raise LabError(f"this is no Debian system: install the equivalents of {' '.join(SYSTEM_PACKAGES)} by hand")
    query = ["dpkg-query", "-W", "-f=${Status}", name]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return "ok installed" in done.stdout


def _interpreter() -> str:
    if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):
        return sys.executable
    found = shutil.which(f"python{PYTHON}")
    if found is None:
        raise LabError(f"the engine's packages are locked for Python {PYTHON}: put python{PYTHON} on PATH")
    return found


def _pip(paths: LabPaths, *arguments: str, doing: str) -> None:
    pip = [str(paths.python), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    _run([*pip, "--require-hashes", *arguments], doing)


def _digest(*sources: Path | str) -> str:
    contents = [source.read_bytes() if isinstance(source, Path) else source.encode() for source in sources]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def _environment(paths: LabPaths) -> None:
    shutil.rmtree(paths.venv, ignore_errors=True)
    _run([_interpreter(), "-m", "venv", str(paths.venv)], "making the engine's environment")
    _pip(paths, "-r", str(_LOCK_FILE), doing="installing the engine's packages")


def _cuda(paths: LabPaths) -> None:
    cuda_stub.build(paths.venv / "lib" / f"python{PYTHON}" / "site-packages")
    check = "import torch; assert not torch.cuda.is_available(); torch.ones(2, 2) @ torch.ones(2, 2)"
    _run([str(paths.python), "-c", check], "loading torch without CUDA")


def _overlay_part(paths: LabPaths, version: str) -> Part:
    pins = [line for line in _OVERLAY_LOCK.read_text().splitlines() if line.startswith(f"sglang=={version} ")]
    if not pins:
        raise LabError(f"{_OVERLAY_LOCK.name} has no line for sglang=={version}")
    folder = paths.overlay(version)

    def make() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.parent / f"{version}.txt"
        lock.write_text(pins[0] + "\n")
        _pip(paths, "--target", str(folder), "-r", str(lock), doing=f"installing SGLang {version}")

    return Part(f"SGLang {version} beside it", folder / "lab-stamp", _digest(pins[0]), make)


def _model(paths: LabPaths, words: str) -> None:
    shutil.rmtree(paths.model, ignore_errors=True)
    paths.model.mkdir(parents=True)
    vocabulary = paths.model / "vocabulary.json"
    vocabulary.write_text(words)
    _run([str(paths.python), str(_MODEL_SCRIPT), str(paths.model), str(vocabulary)], "making the echo model")
