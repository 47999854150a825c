"""Which hook points attach on which engine version: each is imported, none is started."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from lab.engine.errors import LabError
from lab.engine.install import ALL_VERSIONS, require_installed
from lab.engine.paths import LabPaths
from lab.engine.servers import PairSettings, python_path

_SECONDS = 300.0


def survey(version: str, paths: LabPaths, tier: str = "exact", backend: str = "mooncake") -> dict[str, Any]:
    """What `engine_hooks.sglang_plugin.survey` finds on this version. Raises LabError if it cannot be imported."""
    require_installed(paths, version)
    command = [str(paths.python), "-m", "engine_hooks.sglang_plugin.survey", tier, backend]
    done = subprocess.run(
        command, env=environment(version, paths), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise LabError(f"SGLang {version} cannot be imported:\n{done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def environment(version: str, paths: LabPaths) -> dict[str, str]:
    """The environment of a process that imports this version with the hooks beside it, as a server of a pair does."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(paths.root),
        "PYTHONPATH": os.pathsep.join(map(str, python_path(PairSettings(version), paths))),
        "PYTHONWARNINGS": "ignore",
        "SGLANG_USE_CPU_ENGINE": "1",
    }


def attach_matrix(paths: LabPaths) -> dict[str, dict[str, Any]]:
    """By version: how many hook points attach in the exact tier, and what is missing, facts without a supplier too."""
    found = {version: survey(version, paths) for version in ALL_VERSIONS}
    return {version: {"attached": one["attached"], "missing": one["missing"]} for version, one in found.items()}
