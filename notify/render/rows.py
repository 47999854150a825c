"""Answers for programs: CSV and NDJSON of their rows, JSON of the whole."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_json(answer: BaseModel) -> str:
    """The answer as the documented JSON object, indented, ASCII."""
    return json.dumps(answer.model_dump(mode="json", by_alias=True), indent=2) + "\n"


def as_ndjson(answer: BaseModel, rows: str) -> str:
    """One object a row, `"record": "response"`, then the rest of the answer as `"record": "summary"`.

    Rows that were asked for beside them are `"record": "unsure"`.
    """
    whole = answer.model_dump(mode="json", by_alias=True)
    lines = [{"record": "response", **row} for row in whole.pop(rows)]
    if whole.get("unsure"):
        lines += [{"record": "unsure", **row} for row in whole.pop("unsure")]
    return "".join(json.dumps(line) + "\n" for line in [*lines, {"record": "summary", **whole}])


def as_csv(rows: Sequence[BaseModel], kind: type[BaseModel]) -> str:
    """A heading and a line a row. Lists are joined by a space. A cell that a spreadsheet would run is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    names = list(kind.model_fields)
    writer.writerow(names)
    for row in rows:
        values = row.model_dump(mode="json")
        writer.writerow(_cells(values[name] for name in names))
    return out.getvalue()


def _cells(values: Iterable[Any]) -> list[str]:
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):  # a tenant in an operator's view
        value = value["name"] or ":".join(filter(None, (value["key"], value["pseudonym"])))
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "'" + text if text.startswith(_FORMULA) else text
