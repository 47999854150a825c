from __future__ import annotations

import csv
import io
import json

import pytest
from pydantic import Field

from notify.answers import RecipientRow, Shape
from notify.render.rows import as_csv, as_ndjson


class Row(Shape):
    name: str | None
    count: int = 1
    yes: bool = True
    rules: list[str] = Field(default_factory=list)


class Answer(Shape):
    title: str
    responses: list[Row]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_spreadsheet_runs_no_cell(start: str) -> None:
    (_heading, cells) = csv.reader(io.StringIO(as_csv([Row(name=f"{start}cmd|' /C calc'!A0")], Row), newline=""))
    assert cells[0] == f"'{start}cmd|' /C calc'!A0"


def test_a_list_that_begins_like_a_formula_runs_no_more_than_a_name() -> None:
    (_heading, cells) = csv.reader(io.StringIO(as_csv([Row(name="a", rules=["=1+1", "b"])], Row), newline=""))
    assert cells[3] == "'=1+1 b"


def test_cells_hold_plain_values() -> None:
    rows = list(
        csv.reader(io.StringIO(as_csv([Row(name=None, count=-3, yes=False, rules=["a", "b"])], Row), newline=""))
    )
    assert rows == [["name", "count", "yes", "rules"], ["", "-3", "false", "a b"]]


def test_without_rows_the_heading_says_what_there_could_be() -> None:
    assert (
        as_csv([], RecipientRow).split("\r\n")[0].startswith("response_id,started,ended,model,tokens_delivered,scope")
    )


def test_ndjson_is_one_object_a_row_and_a_summary_at_the_end() -> None:
    text = as_ndjson(Answer(title="t", responses=[Row(name="a\nb"), Row(name="c")]), "responses")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["record"] for line in lines] == ["response", "response", "summary"]
    assert lines[0]["name"] == "a\nb"
    assert lines[2] == {"record": "summary", "title": "t"}
