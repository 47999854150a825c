"""What is said of a response that read foreign KV only by way of a cache: whose it was, how much, and that it is so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.store import Store
from detectors.queries import Queries
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from tests.support.cases import Case, load_case
from tests.support.otlp import Fact, export

CASES = Path(__file__).parents[2] / "detectors" / "rules" / "derived" / "cases"
STORY = CASES / "of_another_tenant.yaml"


def judge(store: Queries) -> None:
    Runner(store, DetectionSettings()).run_once()


def row(store: Queries, uid: str) -> dict[str, Any]:
    (found,) = store.rows("SELECT * FROM responses WHERE response_uid = {uid:String}", {"uid": uid})
    return found


def ranges(store: Queries, uid: str) -> list[dict[str, Any]]:
    return store.rows("SELECT * FROM foreign_ranges WHERE response_uid = {uid:String}", {"uid": uid})


def parts(case: Case) -> tuple[list[Fact], list[Fact]]:
    """What there is before the last response began, and the rest."""
    first = next(place for place, one in enumerate(case.facts) if one.uid == case.uids["d3"]) - 1
    return case.facts[:first], case.facts[first:]


@pytest.mark.parametrize("passes", [1, 2])
def test_it_names_the_owner_of_what_the_first_reader_had_read(opened: Store, passes: int) -> None:
    """Whether the first reader is judged in the same pass or was judged before."""
    case = load_case(STORY)
    for facts in parts(case) if passes == 2 else [case.facts]:
        opened.insert_otlp(export(*facts))
        judge(opened.handle())
    store = opened.handle()
    first, reader, owner = (case.uids[name] for name in ("d2", "d3", "d1"))
    assert not row(store, first)["derived"]
    said = row(store, reader)
    assert (said["verdict"], said["derived"], said["scope"], said["rules"]) == (
        "violation",
        True,
        "cross_tenant",
        ["derived"],
    )
    assert (said["foreign_slots"], said["donor_tenants"]) == (32, 1)
    found = ranges(store, reader)
    assert {(one["donor_uid"], one["scope"], one["via"]) for one in found} == {(owner, "cross_tenant", "derived")}
    assert {one["page"] for one in found} == {-1}
