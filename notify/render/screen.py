"""Where answers for people go: stdout, coloured on a terminal only, never wider than it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from notify.render.plain import fit, printable

Align = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, its width in terminal cells, and the side its values stand on."""

    heading: str
    cells: int
    align: Align = "left"


class _Console(Console):
    """Leaves a reader that has gone to the caller: Rich would end the process with an exit code of its own."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(**settings: Any) -> Console:
    """A console that takes no text for markup; `settings` are those of Rich."""
    return _Console(highlight=False, markup=False, emoji=False, **settings)


class Screen:
    """Prints lines. What it is given may hold anything; what it prints is safe."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or make_console()

    @property
    def width(self) -> int:
        """Cells a line may have."""
        return max(self._console.width, 40)

    def line(self, text: str = "", style: str = "", indent: int = 0, hang: int = 0) -> None:
        """One paragraph, wrapped to the width; every line is indented, all but the first by `hang` more."""
        room = self.width - indent
        # textwrap counts characters: wide ones are cut to size below, so that no line ever runs over
        parts = textwrap.wrap(printable(text), room, subsequent_indent=" " * hang, break_long_words=True)
        for part in parts or [""]:
            self._print(" " * indent + fit(part, room), style)

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        self.line(text, "bold")

    def row(self, columns: Sequence[Column], values: Sequence[str], style: str = "") -> None:
        """One row: each value cut to its column."""
        cells = []
        for column, value in zip(columns, values, strict=True):
            shown = fit(value, column.cells)
            padding = " " * (column.cells - cell_len(shown))
            cells.append(padding + shown if column.align == "right" else shown + padding)
        self._print(set_cell_size("  ".join(cells), self.width).rstrip(), style)

    def headings(self, columns: Sequence[Column]) -> None:
        """The row of column headings."""
        self.row(columns, [column.heading for column in columns], "dim")

    def _print(self, text: str, style: str) -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)
