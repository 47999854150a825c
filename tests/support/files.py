"""The files below a directory that another process or thread may be writing and removing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(directory: Path) -> Iterator[Path]:
    """Every file below a directory. The SQL engine drops parts it has merged meanwhile: what has gone is left out."""
    for folder, _, names in os.walk(directory):
        yield from (Path(folder, name) for name in names)


def held_by(path: Path) -> bytes:
    """What a file holds; nothing if it has gone since it was listed."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
