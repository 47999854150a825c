"""A pass that is cut off between any two writes: the next one loses nothing, and leaves nothing twice."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.store import Handle, Store
from detectors.newest import NEWEST
from detectors.runner import Runner
from tests.support.cases import Case, load_case
from tests.support.otlp import Fact, export
from tests.support.stores import fresh_store

RULES = Path(__file__).parents[2] / "detectors" / "rules"
LEAK = RULES / "read_unwritten_page" / "cases" / "oversized_prompt.yaml"
TURNS = RULES / "derived" / "cases" / "ordinary_turns.yaml"
KEPT = ("_versions", "newest_", "detection_runs")
"""In the name of every table whose rows outlive a pass."""

ANSWERS = (
    "SELECT * EXCEPT version FROM responses ORDER BY response_uid",
    "SELECT * EXCEPT version FROM findings ORDER BY finding_id",
    "SELECT * EXCEPT version FROM foreign_ranges ORDER BY ALL",
    "SELECT verdict, toInt64(sum(sign)) AS n FROM newest_responses GROUP BY verdict HAVING n != 0 ORDER BY verdict",
)
FROZEN = """
SELECT response_uid, argMax(verdict, version) AS verdict FROM response_versions GROUP BY response_uid
ORDER BY response_uid
"""


class CutError(Exception):
    """The process ended here."""


class Cut:
    """A store before whose n-th write to a table that is kept the process ends. -1: never."""

    def __init__(self, handle: Handle, writes: int) -> None:
        self._handle = handle
        self._left = writes

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return self._handle.rows(sql, params)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._before(table)
        self._handle.insert(table, columns, rows)

    def command(self, sql: str) -> None:
        self._before(sql)
        self._handle.command(sql)

    def _before(self, text: str) -> None:
        if any(name in text for name in KEPT):
            if self._left == 0:
                raise CutError
            self._left -= 1


def stages(case: Case) -> list[list[Fact]]:
    """What is judged by a pass that ends, and what by the one that is cut off."""
    read = next(one for one in case.facts if one.uid == case.uids["d1"] and one.span == "pagewitness.page.read")
    if "d2" in case.uids:  # all are clean, and then a contradiction takes it back for one, and for who reused its KV
        return [case.facts, [read.but(extra={"pagewitness.read.tokens": 59})]]
    return [[one for one in case.facts if one is not read], [read]]


def told(store: Store, case: Case, writes: int) -> tuple[bool, list[Any]]:
    """Whether the second pass was cut off before this write, and what is said once another has run."""
    handle = store.handle()
    first, second = stages(case)
    store.insert_otlp(export(*first))
    Runner(handle).run_once()
    store.insert_otlp(export(*second))
    cut = False
    try:
        Runner(Cut(handle, writes)).run_once()
    except CutError:
        cut = True
        Runner(handle).run_once()
    return cut, [handle.rows(sql) for sql in (*ANSWERS, FROZEN)]


@pytest.mark.slow
@pytest.mark.parametrize("path", [LEAK, TURNS], ids=["leak", "reuse"])
def test_the_next_pass_says_what_one_pass_would_have_said(path: Path) -> None:
    case = load_case(path)
    with fresh_store() as store:
        whole, expected = told(store, case, -1)
    assert not whole
    verdicts = {row["response_uid"]: row["verdict"] for row in expected[0]}
    assert "clean" not in {verdicts[uid] for name, uid in case.uids.items() if name in ("d1", "d2")}
    writes, cut = 0, True
    while cut:
        with fresh_store() as store:
            cut, said = told(store, case, writes)
        assert said == expected, f"cut off before write {writes}"
        writes += 1
    assert writes > 3, "it was cut off between writes"


def test_versions_go_on_when_the_clock_goes_back(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    case = load_case(LEAK)
    first, second = stages(case)
    handle = opened.handle()
    opened.insert_otlp(export(*first))
    Runner(handle).run_once()
    newest = "SELECT max(version) AS version FROM {}"
    before = {table.versions: handle.rows(newest.format(table.versions))[0]["version"] for table in NEWEST}
    an_hour_ago = time.time_ns() - 3_600 * 10**9
    monkeypatch.setattr("detectors.newest.time.time_ns", lambda: an_hour_ago)
    opened.insert_otlp(export(*second))
    Runner(handle).run_once()
    assert handle.rows("SELECT count() AS n FROM responses WHERE verdict = 'violation'") == [{"n": 1}]
    after = handle.rows(newest.format("response_versions"))[0]["version"]
    assert after > max(before.values())
    assert handle.rows("SELECT version FROM detection_ends ORDER BY judged_at DESC LIMIT 1")[0]["version"] >= after
