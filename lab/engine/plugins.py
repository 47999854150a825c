"""Pairs whose servers load one plugin more: a saboteur, or something that measures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lab.engine.paths import LabPaths
from lab.engine.servers import PairSettings, python_path


def with_plugin(
    settings: PairSettings, folder: Path, environment: Mapping[str, str], paths: LabPaths | None = None
) -> PairSettings:
    """The same pair, its servers with `folder` first on their path and these variables on top.

    The folder holds a module and the metadata of an installed distribution, whose entry point of the group
    `sglang.srt.plugins` names the module.
    """
    folders = [folder, *python_path(settings, paths or LabPaths.from_environment())]
    added = {**environment, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    return replace(settings, environment={**settings.environment, **added})
