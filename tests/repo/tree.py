"""The files of this repository, and what its Python files import."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("engine_hooks", "collector", "detectors", "dashboards", "notify")
SHIPPED = ("collector", "detectors", "dashboards", "notify", "lab", "pagewitness")
"""Top-level names of the `pagewitness` distribution."""


def files() -> list[Path]:
    """Every file that is committed or would be: what git does not ignore, relative to ROOT."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file())


def python_files(*top_level: str) -> list[Path]:
    """Python files of these top-level packages or modules (all of them when none is named), relative to ROOT."""
    found = (path for path in files() if path.suffix == ".py")
    return [path for path in found if not top_level or path.parts[0].removesuffix(".py") in top_level]


def imports(path: Path) -> Iterator[str]:
    """Absolute names of the modules that a file imports, wherever in the file the import stands."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; say the whole name"
            assert node.module is not None
            yield node.module


def pyproject(folder: str = ".") -> dict[str, Any]:
    """The pyproject.toml of a folder."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
