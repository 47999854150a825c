"""The newest rows are what the versions come to: after any sequence of verdicts, merged or not, settled or not yet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.store import Handle
from detectors.newest import NEWEST, settle
from tests.support.stores import fresh_store
from tests.support.verdicts import START, VerdictBook

TENANTS = ("acme", "orion", "unattributed")
VERDICTS = ("clean", "pending", "unknown", "violation", "retired")

RESPONSES = """
SELECT * FROM (SELECT * FROM response_versions ORDER BY version DESC LIMIT 1 BY response_uid) WHERE verdict != 'retired'
"""
FINDINGS = """
SELECT * EXCEPT (retracted) FROM (SELECT * FROM finding_versions ORDER BY version DESC LIMIT 1 BY finding_id)
WHERE NOT retracted
"""
RANGES = f"""
SELECT DISTINCT f.* FROM foreign_range_versions AS f
INNER JOIN ({RESPONSES}) AS r ON r.response_uid = f.response_uid AND r.version = f.version
"""
COUNTS = "SELECT tenant_key, tenant, verdict, {} AS n FROM {} GROUP BY tenant_key, tenant, verdict HAVING n != 0"


@st.composite
def said(draw: st.DrawFn) -> dict[str, Any]:
    """One thing that detection says of one of four responses: anything about it can be another one each time."""
    return {
        "uid": draw(st.sampled_from("abcd")),
        "tenant": draw(st.sampled_from(TENANTS)),
        "verdict": draw(st.sampled_from(VERDICTS)),
        "minutes": draw(st.integers(0, 2)),
        "open": draw(st.booleans()),
        "finding": draw(st.sampled_from(("", "found", "retracted"))),
        "then": draw(st.sampled_from(("", "settle", "merge"))),
    }


@pytest.fixture(scope="module")
def handle() -> Iterator[Handle]:
    with fresh_store() as store:
        yield store.handle()


@pytest.fixture(scope="module")
def book(handle: Handle) -> VerdictBook:
    return VerdictBook(handle, settled=False)


def newest_version(handle: Handle) -> int:
    tables = " UNION ALL ".join(f"SELECT max(version) AS v FROM {table.versions}" for table in NEWEST)
    (row,) = handle.rows(f"SELECT max(v) AS version FROM ({tables})")
    version: int = row["version"]
    return version


def ordered(handle: Handle, sql: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.items()) for row in handle.rows(sql)), key=str)


@given(steps=st.lists(said(), min_size=1, max_size=8), number=st.integers(0, 10**9))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_equals_what_all_versions_come_to(
    handle: Handle, book: VerdictBook, steps: list[dict[str, Any]], number: int
) -> None:
    since = newest_version(handle) + 1
    for step in steps:
        uid = f"{step['uid']}{number:031x}"
        started = START + timedelta(minutes=step["minutes"])
        ended = None if step["open"] else started + timedelta(seconds=5)
        book.response(step["tenant"], uid=uid, verdict=step["verdict"], started=started, ended=ended)
        if step["verdict"] == "violation":
            book.foreign_range(uid, donor="e" * 32, donor_tenant="zenith")
        if step["finding"]:
            retracted = step["finding"] == "retracted"
            book.finding(uid, step["tenant"], finding_id=uid, time=started, retracted=retracted)
        if step["then"]:
            settle(handle, since)
        if step["then"] == "merge":
            for table in NEWEST:
                handle.command(f"OPTIMIZE TABLE {table.newest} FINAL")
    settle(handle, since)
    assert ordered(handle, "SELECT * FROM responses") == ordered(handle, RESPONSES)
    assert ordered(handle, "SELECT * FROM findings") == ordered(handle, FINDINGS)
    assert ordered(handle, "SELECT * FROM foreign_ranges") == ordered(handle, RANGES)
    signed = COUNTS.format("toInt64(sum(sign))", "newest_responses")
    assert ordered(handle, signed) == ordered(handle, COUNTS.format("toInt64(count())", f"({RESPONSES})"))
    written = handle.rows("SELECT count() AS n FROM newest_responses")
    settle(handle, 0)
    assert handle.rows("SELECT count() AS n FROM newest_responses") == written, "to settle again writes nothing"


def test_one_insert_holds_both_rows_of_a_change(handle: Handle, book: VerdictBook) -> None:
    """Both are there or none is: a part is what the store writes at once."""
    handle.command("SYSTEM STOP MERGES newest_responses")
    uid = book.response("acme", verdict="pending")
    settle(handle, newest_version(handle))
    book.response("orion", uid=uid, verdict="violation")
    settle(handle, newest_version(handle))
    parts = handle.rows(
        "SELECT arraySort(groupArray(sign)) AS signs FROM newest_responses WHERE response_uid = {uid:String}"
        " GROUP BY _part ORDER BY length(signs)",
        {"uid": uid},
    )
    handle.command("SYSTEM START MERGES newest_responses")
    assert parts == [{"signs": [1]}, {"signs": [-1, 1]}]
