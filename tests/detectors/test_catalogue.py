"""Rules are read strictly: what is wrong is named with its folder and field."""

from __future__ import annotations

import pytest

from detectors.catalogue import RuleError, load_rules, parse_rule, rule_set

GOOD = """
title: t
condition: c
variants: {"": {effect: posture, severity: low, means: m}}
inputs: {decode: [node.config]}
absence_based: false
traps: []
references: []
maturity: {level: sandbox, criteria: c}
"""


def test_the_six_rules_load() -> None:
    assert [rule.name for rule in load_rules()] == [
        "capacity_mismatch",
        "derived",
        "identity_reuse",
        "read_unwritten_page",
        "reject_then_continue",
        "transfer_short",
    ]


def test_only_reading_foreign_pages_contaminates() -> None:
    assert [rule.name for rule in load_rules() if rule.contaminates] == ["derived", "read_unwritten_page"]


def test_what_clean_is_clean_for_counts_the_rules() -> None:
    assert rule_set(load_rules()) == "6 rules, control tier; queued, not landed"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("effect: posture", "effect: bad", "effect 'bad'"),
        ("severity: low", "severity: huge", "severity 'huge'"),
        ("level: sandbox", "level: new", "maturity is 'new'"),
        ("title: t\n", "", "rule.yaml must have exactly"),
    ],
)
def test_a_wrong_field_is_named(old: str, new: str, named: str) -> None:
    with pytest.raises(RuleError, match="rule some_rule: ") as caught:
        parse_rule("some_rule", GOOD.replace(old, new), "SELECT 1")
    assert named in str(caught.value)


def test_a_variant_that_the_sql_made_up_is_refused() -> None:
    with pytest.raises(RuleError, match="does not declare"):
        parse_rule("some_rule", GOOD, "SELECT 1").variant("other")
