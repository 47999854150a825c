"""Where the engine lab keeps its things: all of it under one folder that git ignores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
"""The folder that holds `engine_hooks`, `lab` and the other packages."""

HERE = Path(__file__).resolve().parent

DIR_SETTING = "PAGEWITNESS_LAB_DIR"
"""Environment variable that names another folder than `.lab` in the repository."""


@dataclass(frozen=True, slots=True)
class LabPaths:
    """The folders of one lab installation, all below `root`."""

    root: Path

    @classmethod
    def from_environment(cls) -> LabPaths:
        """The folder that PAGEWITNESS_LAB_DIR names, else `.lab` in the repository. It need not exist."""
        named = os.environ.get(DIR_SETTING)
        return cls(Path(named).absolute() if named else REPOSITORY / ".lab")

    @property
    def venv(self) -> Path:
        """The engine's own virtual environment."""
        return self.root / "venv"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.venv / "bin" / "python"

    def overlay(self, version: str) -> Path:
        """Folder with another engine version, to be put first on PYTHONPATH."""
        return self.root / "overlays" / version

    @property
    def model(self) -> Path:
        """The echo model."""
        return self.root / "echo-model"

    @property
    def hooks(self) -> Path:
        """Folder whose only contents are a link to `engine_hooks` and its entry point for SGLang."""
        return self.root / "hooks"

    @property
    def runs(self) -> Path:
        """Logs and files of each run, one folder a run."""
        return self.root / "runs"

    @property
    def lock(self) -> Path:
        """Held while something is installed."""
        return self.root / ".lock"
