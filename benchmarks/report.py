"""Figures as a page: one table a benchmark, each row beside its ratio to the first row, or to its goal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docs.tables import table

Row = float | Mapping[str, float]

INTRODUCTION = """# Performance

Made by `make bench`: figures of one run on one machine, not a promise. Compare ratios rather than numbers with those
of another machine; "to first" is a row's first number over that of the table's first row."""

RATIO = ("to ", "times ")
"""How the name of a column begins that is a ratio already: its table needs no further one."""


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark's result. `rows` by name; `goals` gives, for some rows, the most the first number should be."""

    name: str
    title: str
    text: str
    rows: Mapping[str, Row]
    goals: Mapping[str, float] = field(default_factory=dict)


def page(sections: list[Section], machine: Mapping[str, str]) -> str:
    """The whole page, in Markdown."""
    about = table(["measured", ""], [[key, value] for key, value in machine.items()])
    return "\n\n".join([INTRODUCTION, about, *(_section(section) for section in sections)]) + "\n"


def with_section(text: str, section: Section) -> str:
    """The page `text` with this section in the place of the one with its title, or at its end."""
    sections = _split(text)
    sections[section.title] = _section(section)
    return _joined(sections)


def keeping(text: str, old: str, titles: Sequence[str]) -> str:
    """The page `text`, and after it those sections of the `old` page that have these titles."""
    before = _split(old)
    return _joined(_split(text) | {title: before[title] for title in titles if title in before})


def _split(text: str) -> dict[str, str]:
    """Sections by title, in order; the beginning of the page has the title ''."""
    first, *others = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {"": first.strip(), **{part.partition("\n")[0].removeprefix("## "): part.strip() for part in others}}


def _joined(sections: Mapping[str, str]) -> str:
    return "\n\n".join(sections.values()) + "\n"


def _section(section: Section) -> str:
    columns = list(dict.fromkeys(name for row in section.rows.values() for name in _numbers(row)))
    base = next(iter(_numbers(next(iter(section.rows.values()))).values()))
    compared = any(column.startswith(RATIO) for column in columns)
    header = ["", *columns, *([] if compared else ["to first"]), *(["to goal"] if section.goals else [])]
    body = []
    for name, row in section.rows.items():
        numbers = _numbers(row)
        first = next(iter(numbers.values()))
        cells = [name, *(_number(numbers[column]) if column in numbers else "" for column in columns)]
        if not compared:
            cells.append(f"{first / base:.2f} x" if base else "")
        if section.goals:
            goal = section.goals.get(name)
            cells.append(f"{first / goal:.2f} x of {_number(goal)}" if goal else "")
        body.append(cells)
    return "\n\n".join(part for part in (f"## {section.title}", section.text, table(header, body)) if part)


def _numbers(row: Row) -> Mapping[str, float]:
    return row if isinstance(row, Mapping) else {"value": row}


def _number(value: float) -> str:
    """Three significant digits, thousands grouped."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
