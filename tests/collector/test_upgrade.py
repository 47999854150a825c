"""A store that version 1 of the contract filled goes on answering, and takes version 2 beside what it has.

The folder `contract_1` is a capture of the leak as hooks of version 1 recorded it, and in `answers.jsonl` what
detection wrote over it then: the rows of the tables that answers are read from, each table behind a line with its
columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.store import Handle, Store, open_store
from collector.store.columns import added_columns
from collector.store.migrate import load_migrations, migrate
from collector.store.writer import EvidenceWriter
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from engine_hooks.conventions import CONTRACT_VERSION, SPANS
from lab.captures.capture import Capture
from lab.captures.compare import compare
from tests.lab.answers import STALL_SECONDS, spans_of
from tests.support.cases import load_case
from tests.support.otlp import export, fact
from tests.support.stores import shared_data_dir

FOLDER = Path(__file__).with_name("contract_1")
ANSWERS = FOLDER / "answers.jsonl"
CASE = Path(__file__).parents[2] / "detectors" / "rules" / "read_unwritten_page" / "cases" / "oversized_prompt.yaml"
ARRIVED = 1_790_000_000_000_000_000
"""When the capture came to the store whose answers these are: its cursor says so too."""

AFFECTED = (
    "SELECT * EXCEPT (version, clean_for), toString(started) AS at FROM responses "
    "WHERE verdict = 'violation' AND emitter LIKE 'lab1/%' ORDER BY response_uid"
)
RANGES = "SELECT * EXCEPT version FROM foreign_ranges ORDER BY ALL"

_numbers = count(1)


@pytest.fixture(scope="module")
def capture() -> Capture:
    return Capture.load(FOLDER)


def saved_answers() -> Iterator[tuple[str, list[str], list[list[Any]]]]:
    """Each table of the file: its name, its columns, its rows."""
    lines = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    heads = [place for place, line in enumerate(lines) if isinstance(line, dict)]
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        yield lines[head]["table"], lines[head]["columns"], lines[head + 1 : end]


def whole(capture: Capture) -> ExportTraceServiceRequest:
    """Every body of the capture in one."""
    merged = ExportTraceServiceRequest()
    for body in capture.bodies:
        merged.MergeFrom(body.message())
    return merged


def store_of_contract_1(capture: Capture, *, judged: bool) -> str:
    """Make a database as version 1 left it, with the evidence of the capture; `judged`: and its answers."""
    name = f"upgraded_{next(_numbers)}"
    default = Handle(shared_data_dir(), "default")
    default.command(f"CREATE DATABASE {name}")
    default.close()
    handle = Handle(shared_data_dir(), name)
    migrate(handle, load_migrations()[:2])
    EvidenceWriter(handle, now_ns=lambda: ARRIVED).insert([whole(capture).SerializeToString()])
    for table, columns, rows in saved_answers() if judged else ():
        lines = "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in rows)
        handle.command(f"INSERT INTO {table} FORMAT JSONEachRow {lines}")
    handle.close()
    return name


@pytest.fixture(scope="module")
def old(capture: Capture, store: Store) -> Iterator[Store]:
    """Such a store with its answers, opened by the code of now. (`store` keeps the directory open meanwhile.)"""
    with open_store(shared_data_dir(), store_of_contract_1(capture, judged=True)) as opened:
        yield opened


def rows_of(store: Store, sql: str) -> list[dict[str, Any]]:
    handle = store.handle()
    rows = handle.rows(sql)
    handle.close()
    return rows


def test_the_upgrade_keeps_every_fact_and_its_contract(old: Store, capture: Capture) -> None:
    sent = {(span.trace_id, span.span_id) for span in spans_of(capture)}
    assert rows_of(old, "SELECT count() AS n, max(contents) AS contents FROM facts WHERE contract = 1") == [
        {"n": len(sent), "contents": 1}
    ]


def test_an_old_fact_has_nothing_in_a_column_that_came_later(old: Store) -> None:
    absent: dict[str, object] = {
        "Nullable(Int64)": None,
        "Nullable(Bool)": None,
        "Array(String)": [],
        "Array(Int64)": [],
    }
    columns = added_columns()
    assert len(columns) > 40
    selected = ", ".join(column.name for column in columns)
    assert rows_of(old, f"SELECT DISTINCT {selected} FROM facts WHERE contract = 1") == [
        {column.name: absent.get(column.type, "") for column in columns}
    ]


def test_the_answers_are_there_before_anything_is_judged_again(old: Store, capture: Capture) -> None:
    found = compare(
        capture.truth, rows_of(old, "SELECT * FROM foreign_ranges"), rows_of(old, "SELECT * FROM responses")
    )
    assert found.equal, str(found)


def test_version_2_is_stored_and_judged_beside_it_and_the_affected_list_stays(old: Store) -> None:
    affected, ranges = rows_of(old, AFFECTED), rows_of(old, RANGES)
    assert len(affected) == 2
    story = load_case(CASE)
    of_version_2 = [
        fact(span.name, emitter="later/node", seq=seq, ordinal=seq, uid="2e" * 16)
        for seq, span in enumerate((span for span in SPANS if span.since == CONTRACT_VERSION), start=1)
    ]

    receipt = old.insert_otlp(export(*story.facts, *of_version_2))
    handle = old.handle()
    Runner(handle, DetectionSettings(stall_seconds=STALL_SECONDS)).run_once()

    assert receipt.rejects == {}
    (new,) = story.verdicts
    verdict = handle.query(f"SELECT verdict FROM responses WHERE response_uid = '{story.uids[new]}'")
    assert verdict == [(story.verdicts[new],)]
    assert rows_of(old, AFFECTED) == affected
    old_ranges = {json.dumps(row, default=str) for row in ranges}
    assert old_ranges <= {json.dumps(row, default=str) for row in rows_of(old, RANGES)}
    handle.close()


def test_evidence_of_version_1_that_was_never_judged_is_judged_now(capture: Capture, store: Store) -> None:
    with open_store(shared_data_dir(), store_of_contract_1(capture, judged=False)) as opened:
        handle = opened.handle()
        Runner(handle, DetectionSettings(stall_seconds=STALL_SECONDS)).run_once()
        found = compare(
            capture.truth, handle.rows("SELECT * FROM foreign_ranges"), handle.rows("SELECT * FROM responses")
        )
        assert found.equal, str(found)


def test_the_upgrade_can_be_cut_off_anywhere_and_run_again(store: Store) -> None:
    name = f"upgraded_{next(_numbers)}"
    default = Handle(shared_data_dir(), "default")
    default.command(f"CREATE DATABASE {name}")
    default.close()
    handle = Handle(shared_data_dir(), name)
    known = load_migrations()
    migrate(handle, known[:2])
    for statement in known[2].statements:
        handle.command(statement)
    for statement in known[2].statements[:-1]:
        handle.command(statement)

    assert [one.version for one in migrate(handle, known)] == [one.version for one in known[2:]]

    handle.close()
    with open_store(shared_data_dir(), name) as opened:
        assert opened.insert_otlp(export(fact("pagewitness.page.step"))).stored == 1
