"""Markdown tables that also read well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """The table: columns are padded, and those that hold only numbers stand right."""
    rows = [header, *body]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    numeric = [column > 0 and all(_is_number(row[column]) for row in body) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        return f"| {' | '.join(cells)} |"

    rule = " | ".join("-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, numeric, strict=True))
    return "\n".join([line(header), f"| {rule} |", *(line(row) for row in body)])


def _is_number(text: str) -> bool:
    return not text or text[0].isdigit() or text[0] == "-"
