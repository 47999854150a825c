"""Every case of every rule gives exactly the findings and verdicts that it names, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from detectors.catalogue import load_rules
from detectors.queries import Queries
from detectors.runner import Runner
from tests.support.cases import load_case
from tests.support.otlp import Fact

RULES = Path(__file__).parents[2] / "detectors" / "rules"
CASES = sorted(RULES.glob("*/cases/*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_case(path: Path, store: Queries, post: Callable[[list[Fact]], None]) -> None:
    case = load_case(path)
    post(case.facts)
    Runner(store).run_once()
    found = store.rows(
        "SELECT rule, variant FROM findings WHERE subject IN {subjects:Array(String)}",
        {"subjects": sorted(case.subjects)},
    )
    assert sorted(row["rule"] + (f".{row['variant']}" if row["variant"] else "") for row in found) == case.findings
    for leg, uid in case.uids.items():
        (row,) = store.rows("SELECT verdict, reasons FROM responses WHERE response_uid = {uid:String}", {"uid": uid})
        assert row["verdict"] == case.verdicts[leg], (leg, row["reasons"])


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.name)
def test_every_rule_has_a_case_that_fires_it_and_one_that_does_not(rule: object) -> None:
    name = rule.name  # type: ignore[attr-defined]
    fires = [path for path in CASES if f"{name}" in path.read_text().split("findings:")[1]]
    own = list((RULES / name / "cases").glob("*.yaml"))
    assert any(path in fires for path in own), f"{name} has no case of its own that fires it"
    assert any(path not in fires for path in own), f"{name} has no case of its own that must not fire it"
