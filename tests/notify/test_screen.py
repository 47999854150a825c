from __future__ import annotations

import io

from rich.cells import cell_len

from notify.render.screen import Column, Screen, make_console

COLUMNS = (Column("Name", 10), Column("Count", 6, "right"), Column("What", 60))


def screen_of(width: int = 80, *, terminal: bool = False) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    console = make_console(file=out, width=width, force_terminal=terminal, _environ={"TERM": "xterm"})
    return Screen(console), out


def test_values_stand_in_their_columns_and_are_cut_to_them() -> None:
    screen, out = screen_of()
    screen.headings(COLUMNS)
    screen.row(COLUMNS, ["a" * 20, "7", "b"])
    assert out.getvalue() == "Name         Count  What\n" + "aaaaaaaaa…       7  b\n"


def test_no_line_is_wider_than_the_screen() -> None:
    screen, out = screen_of(60)
    screen.row(COLUMNS, ["漢" * 20, "7", "b" * 100])
    screen.line("漢字 " * 50 + "x" * 300, indent=4)
    assert max(cell_len(line) for line in out.getvalue().splitlines()) <= 60


def test_what_looks_like_markup_or_an_escape_is_text() -> None:
    screen, out = screen_of()
    screen.line("[red]a[/red] :smile: \x1b[31mb")
    assert out.getvalue() == "[red]a[/red] :smile: \\x1b[31mb\n"


def test_colours_are_for_terminals_only() -> None:
    for terminal in (True, False):
        screen, out = screen_of(terminal=terminal)
        screen.line("a", "red")
        assert ("\x1b[31m" in out.getvalue()) is terminal
