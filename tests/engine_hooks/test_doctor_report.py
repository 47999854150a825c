"""How the doctor's findings are printed, and what its exit code says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_hooks import exit_codes
from engine_hooks.doctor import Check
from engine_hooks.doctor_report import as_json, as_table, exit_code
from engine_hooks.sglang_plugin.table import VERSIONS, targets_for
from notify.exit_codes import ExitCode

LONG = "a sentence that is so long that it does not fit into what is left of a line of eighty columns, by far"
CHECKS = [
    Check("python", "ok", "3.11.7"),
    Check("a-package-with-a-very-long-name-indeed", "fail", LONG, LONG),
    Check("facts", "blind", "no supplier here: transfer.landed", "wait"),
]


def engine(version: tuple[int, int, int], tier: str, fault: str = "") -> dict[str, Any]:
    hooks = [
        {
            "name": row.name, "target": row.path, "facts": list(row.facts), "tier": row.tier, "thread": row.thread,
            "cost": row.cost, "problem": fault,
        }
        for row in targets_for(version, tier)
    ]  # fmt: skip
    return {
        "version": "x",
        "known": True,
        "tier": tier,
        "backend": "nixl",
        "attached": 0,
        "missing": [],
        "hooks": hooks,
    }


@pytest.mark.parametrize(
    "fault", ["", "no finalize_bootstrap in sglang.srt.disaggregation.prefill.PrefillBootstrapQueue"]
)
@pytest.mark.parametrize("tier", ["control", "exact"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_fits_into_eighty_columns(version: tuple[int, int, int], tier: str, fault: str) -> None:
    lines = as_table(CHECKS, engine(version, tier, fault), colours=False).splitlines()
    assert max(map(len, lines)) <= 80


def test_the_table_has_every_hook_point_with_thread_cost_and_tier() -> None:
    rows = as_table(CHECKS, engine((0, 5, 23), "control"), colours=False).splitlines()
    (row,) = [row.split() for row in rows if "Scheduler.run_batch:after" in row]
    assert row == ["on", "Scheduler.run_batch:after", "scheduler", "step", "control"]


def test_a_hook_point_that_is_missing_is_followed_by_the_reason() -> None:
    text = as_table(CHECKS, engine((0, 5, 23), "control", "no such thing"), colours=False)
    assert "Scheduler.run_batch:after: no such thing" in text
    assert "missing  " in text


def test_advice_is_printed_where_something_is_wrong_only() -> None:
    text = as_table(
        [Check("python", "ok", "3.11", "advice"), Check("keys", "blind", "none", "set them")], None, colours=False
    )
    assert "-> set them" in text
    assert "advice" not in text


def test_colours_are_for_terminals() -> None:
    assert "\033" in as_table(CHECKS, None, colours=True)
    assert "\033" not in as_table(CHECKS, None, colours=False)


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["ok"], 0), (["ok", "warn"], 0), (["ok", "blind", "warn"], 4), (["blind", "fail"], 1)],
)
def test_the_exit_code_says_what_is_the_worst(statuses: list[str], code: int) -> None:
    assert exit_code([Check("x", status, "") for status in statuses]) == code


def test_json_has_everything_and_the_exit_code() -> None:
    found = json.loads(as_json(CHECKS, engine((0, 5, 23), "control")))
    assert [check["name"] for check in found["checks"]] == [check.name for check in CHECKS]
    assert found["engine"]["hooks"][0]["target"] == "sglang.srt.managers.scheduler.Scheduler.__init__"
    assert found["exit"] == 1


def test_the_codes_mean_what_they_mean_everywhere() -> None:
    for name in ("OK", "ERROR", "USAGE", "INCOMPLETE"):
        assert getattr(exit_codes, name) == ExitCode[name]
