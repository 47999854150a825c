"""What no file of the repository may say: it speaks of itself alone, and installs from wherever its reader does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.captures.capture import Capture
from tests.repo.tree import ROOT, files

MACHINE_PATHS = r"(?<![\w.])/(?:root|home|work|Users)/[A-Za-z0-9._-]"
REGISTRIES = "|".join(
    re.escape(".".join(parts))
    for parts in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("maven", "org"),
        ("deb", "debian", "org"),
    ]
)
UNFINISHED = r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b"
FORBIDDEN = {
    "a path of one machine": re.compile(MACHINE_PATHS),
    "a package registry": re.compile(REGISTRIES + r"|--(?:extra-)?index" + "-url"),
    "an unfinished mark": re.compile(UNFINISHED),
    "a key or a token": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE" + r" KEY-----|\bgh[pousr]_[A-Za-z0-9]{30}|\bAKIA[A-Z0-9]{16}\b"
    ),
}


def text_of(path: Path) -> str:
    """What a file says; the recorded bodies of a capture are decompressed."""
    if path.name == "bodies.bin":
        bodies = Capture.load((ROOT / path).parent).bodies
        return "\n".join(body.message().SerializeToString().decode("utf-8", errors="replace") for body in bodies)
    return (ROOT / path).read_bytes().decode("utf-8", errors="replace")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_says(what: str) -> None:
    found = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]
    assert not found, f"{what} is named here:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", "see " + "/ro" + "ot/x"),
        ("a package registry", "https://" + "pypi" + ".org/simple"),
        ("an unfinished mark", "# " + "TO" + "DO: later"),
        ("a key or a token", "-----BEGIN PRIVATE" + " KEY-----"),
    ],
)
def test_the_search_would_find(what: str, line: str) -> None:
    assert FORBIDDEN[what].search(line)
