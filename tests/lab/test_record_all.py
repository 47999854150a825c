"""Recording every capture that is kept: one that fails does not keep the others from being recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.engine import capture
from lab.engine.errors import LabError
from lab.engine.progress import say_nothing
from lab.engine.stories import STORIES
from lab.engine.stories.story import Story

KEPT = [(story.name, version) for story in STORIES.values() for version in story.versions]


class Recordings:
    """Stands in for `record`: remembers what it was asked for, and fails for some stories."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.asked: list[tuple[str, str, Path]] = []

    def __call__(self, story: Story, version: str, folder: Path, *_: Any) -> None:
        self.asked.append((story.name, version, folder))
        if story.name in self.failing:
            raise LabError("this run is no capture")


def test_every_story_is_recorded_on_each_of_its_versions_in_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = Recordings()
    monkeypatch.setattr(capture, "record", recordings)
    capture.record_all(say=say_nothing)
    assert [(name, version) for name, version, _ in recordings.asked] == KEPT
    assert len({folder for _, _, folder in recordings.asked}) == len(KEPT)


def test_one_that_fails_is_named_when_the_others_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings = Recordings("fake")
    monkeypatch.setattr(capture, "record", recordings)
    with pytest.raises(LabError, match=r"1 captures were not recorded:\nfake on 0\.5\.19: this run is no capture"):
        capture.record_all(say=say_nothing)
    assert len(recordings.asked) == len(KEPT)
