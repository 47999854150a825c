"""The stories, told to the real engine now: each shows what it is for, and the answers agree with what memory held.

`record` asserts what a story is for. The cheapest are told on every run of the engine's tests, the rest with
`engine_all`. Needs `python -m lab.engine install`, root and network namespaces. Never skips: a missing part fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.engine.capture import record
from lab.engine.paths import LabPaths
from lab.engine.stories import STORIES
from tests.lab.answers import disagreements, judge

ALWAYS = ("fake", "retracted")
OWN_TEST = "oversized"
"""`test_engine_pair` tells it, and compares it with the committed capture slot by slot."""

REST = [name for name in STORIES if name not in (*ALWAYS, OWN_TEST)]


def told(name: str, tmp_path: Path) -> None:
    """Record a story on the version of its capture, and judge its evidence."""
    paths = LabPaths(tmp_path / "lab")  # a folder of its own names a namespace of its own: another pair may be up
    paths.root.symlink_to(LabPaths.from_environment().root)
    story = STORIES[name]
    capture = record(story, story.versions[0], tmp_path / "capture", paths)
    assert disagreements(capture, judge(capture)) == []


@pytest.mark.engine
@pytest.mark.parametrize("name", ALWAYS)
def test_a_cheap_story_shows_what_it_is_for_and_the_answers_agree_with_memory(name: str, tmp_path: Path) -> None:
    told(name, tmp_path)


@pytest.mark.engine_all
@pytest.mark.parametrize("name", REST)
def test_a_story_shows_what_it_is_for_and_the_answers_agree_with_memory(name: str, tmp_path: Path) -> None:
    told(name, tmp_path)
