"""Text of unknown origin (tenant names above all) made safe to print and to align."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"
_MAX_MARKS = 2  # combining marks kept after one character: a tower of them would cover other lines


def printable(text: str) -> str:
    """`text` with every character that could move the cursor, hide, reorder or restyle shown as an escape.

    Controls, bidirectional overrides, line separators, private and unassigned characters become ``\\x1b`` and the
    like; letters of every script stay.
    """
    out: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if category[0] == "C" or category in ("Zl", "Zp"):
            out.append(char.encode("unicode_escape").decode("ascii"))
        elif marks <= _MAX_MARKS:
            out.append(" " if category == "Zs" else char)
    return "".join(out)


def fit(text: str, cells: int) -> str:
    """`text` made printable and cut to `cells` terminal cells, an ellipsis where something is missing."""
    safe = printable(text)
    if cell_len(safe) <= cells:
        return safe
    return set_cell_size(safe, cells - 1).rstrip() + ELLIPSIS
