"""The folder that makes pagewitness' hooks importable in the engine, and nothing else of this repository.

It holds a link to `engine_hooks` and the metadata of an installed distribution with its entry points. In production the
package `pagewitness-hooks` is installed into the engine's environment instead.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from lab.engine.paths import REPOSITORY

_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 0\n"


def make(folder: Path) -> None:
    """Make the folder, or bring it up to date with the entry points that the distribution declares."""
    project = tomllib.loads((REPOSITORY / "engine_hooks" / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(_METADATA.format(name=project["name"]))
    (info / "entry_points.txt").write_text(_ini(project["entry-points"]))
    link, target = folder / "engine_hooks", REPOSITORY / "engine_hooks"
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _ini(groups: dict[str, dict[str, str]]) -> str:
    sections = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
        for group, entries in groups.items()
    )
    return "\n".join(sections) + "\n"
