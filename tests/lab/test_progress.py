"""How far a long run is: a bar where a person looks on, lines where a file does."""

from __future__ import annotations

import io
import sys

import pytest

from lab.progress import counted


class Terminal(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with counted("requests of atlas", 200) as (tell, say):
        tell(50)
        say("judging the rest")
        tell(150)
    shown = screen.getvalue()
    assert "150/200" in shown
    assert "judging the rest" in shown
    assert "━" in shown


def test_elsewhere_there_is_a_line_for_each_tenth() -> None:
    lines: list[str] = []
    with counted("requests of atlas", 200, lines.append) as (tell, say):
        for count in range(1, 201):
            tell(count)
        say("judging the rest")
    assert lines[0] == "requests of atlas: 20 of 200"
    assert lines[-2:] == ["requests of atlas: 200 of 200", "judging the rest"]
    assert len(lines) == 11
