"""The lock holds everything that is asked for, by hash, and installs from wherever its reader's pip installs."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repo.tree import ROOT, pyproject

ENTRY = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)


def lock() -> str:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8")


def pins() -> dict[str, str]:
    return {canonicalize_name(entry["name"]): entry["version"] for entry in ENTRY.finditer(lock())}


def asked_for() -> list[str]:
    ours, hooks = pyproject(), pyproject("engine_hooks")
    return [
        *hooks["project"]["dependencies"],
        *ours["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"],
        *ours["dependency-groups"]["dev"],
        *ours["build-system"]["requires"],
        *hooks["build-system"]["requires"],
    ]


@pytest.mark.parametrize("requirement", sorted(set(asked_for())))
def test_everything_asked_for_is_pinned_within_its_range(requirement: str) -> None:
    wanted = Requirement(requirement)
    pinned = pins()[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(pinned), "run `make lock`"


def test_the_lock_says_nothing_but_pins_and_hashes() -> None:
    rest = ENTRY.sub("", lock())
    assert [line for line in rest.splitlines() if line and not line.startswith("#")] == []
