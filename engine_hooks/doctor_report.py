"""How the doctor's findings are printed: a table of at most 80 columns, or JSON; and the exit code they stand for."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from engine_hooks.doctor import BLIND, FAIL, OK, WARN, Check
from engine_hooks.engine_check import Survey
from engine_hooks.exit_codes import ERROR, INCOMPLETE
from engine_hooks.exit_codes import OK as NOTHING_WRONG

COLUMNS = 80
_COLOURS = {FAIL: "\033[31m", BLIND: "\033[33m", WARN: "\033[33m"}
_PLAIN = "\033[0m"
_STATUS, _LONGEST_NAME = 5, 18
_HEAD = {"state": "hook", "name": "point", "thread": "thread", "cost": "cost", "tier": "tier"}


def exit_code(checks: Sequence[Check]) -> int:
    """1 where something is broken, 4 where it works and evidence will be incomplete all the same, else 0."""
    statuses = {check.status for check in checks}
    return ERROR if FAIL in statuses else INCOMPLETE if BLIND in statuses else NOTHING_WRONG


def as_json(checks: Sequence[Check], engine: Survey | None) -> str:
    """One object: `checks`, `engine` (what the survey found, or null) and `exit`."""
    found = {"checks": [asdict(check) for check in checks], "engine": engine, "exit": exit_code(checks)}
    return json.dumps(found, indent=2)


def as_table(checks: Sequence[Check], engine: Survey | None, *, colours: bool) -> str:
    """Lines of at most 80 columns, but for a single word that is longer."""
    lines = list(_checks(checks, colours))
    if engine is not None:
        lines += ["", *_hooks(engine)]
    return "\n".join(lines)


def _checks(checks: Sequence[Check], colours: bool) -> Iterator[str]:
    width = min(max(len(check.name) for check in checks), _LONGEST_NAME)
    indent = _STATUS + width + 4
    for check in checks:
        first, *more = _wrapped(check.detail, COLUMNS - indent)
        if len(check.name) > width:
            first, more = "", [first, *more]
        status = f"{check.status:<{_STATUS}}"
        if colours and check.status in _COLOURS:
            status = f"{_COLOURS[check.status]}{status}{_PLAIN}"
        yield f"{status}  {check.name:<{width}}  {first}".rstrip()
        yield from (" " * indent + line for line in more)
        if check.status != OK and check.advice:
            first, *more = _wrapped(check.advice, COLUMNS - indent - 3)
            yield f"{'':<{indent}}-> {first}"
            yield from (" " * (indent + 3) + line for line in more)


def _hooks(engine: Survey) -> Iterator[str]:
    rows = [_HEAD]
    rows += [{**hook, "state": "missing" if hook["problem"] else "on"} for hook in engine["hooks"]]
    fixed = {column: max(len(row[column]) for row in rows) for column in _HEAD if column != "name"}
    room = COLUMNS - sum(fixed.values()) - 2 * len(fixed)
    for row in rows:
        cells = {column: f"{row[column]:<{width}}" for column, width in fixed.items()}
        name = f"{_end_of(row['name'], room):<{room}}"
        yield "  ".join([cells["state"], name, cells["thread"], cells["cost"], cells["tier"]]).rstrip()
    for hook in engine["hooks"]:
        if hook["problem"]:
            yield from textwrap.wrap(f"{hook['name']}: {hook['problem']}", COLUMNS, subsequent_indent="  ")


def _end_of(name: str, room: int) -> str:
    """A name that is too long keeps its end, which tells it apart."""
    return name if len(name) <= room else ".." + name[-(room - 2) :]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]
