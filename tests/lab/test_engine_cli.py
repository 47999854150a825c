"""`python -m lab.engine`: what needs no engine."""

from __future__ import annotations

from typer.testing import CliRunner

from lab.engine.cli import app
from lab.engine.stories import STORIES


def test_the_stories_are_listed_with_the_versions_that_captures_are_kept_of() -> None:
    lines = CliRunner().invoke(app, ["stories"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(STORIES)
    assert "0.5.19, 0.5.23" in lines[0]


def test_a_story_that_there_is_not_is_named_with_those_that_there_are() -> None:
    result = CliRunner().invoke(app, ["capture", "--story", "nothing"])
    assert result.exit_code == 2
    assert "no such story" in result.output
    assert "retracted" in result.output
