"""The rules, read from their folders and checked: ``rules/<name>/rule.yaml`` beside ``rule.sql``.

`rule.sql` selects from `request_rollup` (or `nodes`) one row a violation with the columns `variant`, `subject`,
`response_uid`, `tenant`, `tenant_key`, `time`, `tokens_from`, `tokens_to`. It may use the parameters of
:data:`PARAMETERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

EFFECTS = ("contamination", "exposure_risk", "posture")
SEVERITIES = ("critical", "high", "medium", "low")
MATURITIES = ("sandbox", "incubating", "stable")
PARAMETERS = ("stall_seconds",)
"""Names that a rule's SQL may use as `{name:Int64}`."""


class RuleError(ValueError):
    """A rule folder says something that does not hold together; the message names the folder and the field."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to violate a rule."""

    name: str  # "" where the rule has only one
    effect: str
    severity: str
    means: str  # one sentence for a responder; holds no other tenant's data


@dataclass(frozen=True, slots=True)
class Rule:
    """One named condition over facts."""

    name: str
    title: str
    condition: str
    variants: tuple[Variant, ...]
    inputs: Mapping[str, tuple[str, ...]]  # role -> facts that the rule needs there, as `span.variant`
    absence_based: bool
    traps: tuple[str, ...]
    references: tuple[str, ...]
    maturity: str
    maturity_criteria: str
    sql: str

    def variant(self, name: str) -> Variant:
        """The variant of this name. Raises RuleError if the SQL made one up."""
        for candidate in self.variants:
            if candidate.name == name:
                return candidate
        raise RuleError(f"rule {self.name}: rule.sql gave the variant {name!r}, which rule.yaml does not declare")

    @property
    def contaminates(self) -> bool:
        """Whether a violation of it can mean that foreign KV was read."""
        return any(variant.effect == "contamination" for variant in self.variants)


_FIELDS = {"title", "condition", "variants", "inputs", "absence_based", "traps", "references", "maturity"}


def _require(name: str, holds: bool, what: str) -> None:
    if not holds:
        raise RuleError(f"rule {name}: {what}")


def parse_rule(name: str, text: str, sql: str) -> Rule:
    """Build a rule from the text of its two files. Raises RuleError with the field that is wrong."""
    raw: Any = yaml.safe_load(text)
    _require(name, isinstance(raw, dict) and set(raw) == _FIELDS, f"rule.yaml must have exactly {sorted(_FIELDS)}")
    variants = []
    for variant, said in raw["variants"].items():
        _require(
            name,
            said["effect"] in EFFECTS,
            f"variant {variant!r} has the effect {said['effect']!r}, not one of {EFFECTS}",
        )
        _require(name, said["severity"] in SEVERITIES, f"variant {variant!r} has the severity {said['severity']!r}")
        variants.append(Variant(variant, said["effect"], said["severity"], " ".join(said["means"].split())))
    _require(name, bool(variants), "at least one variant is needed")
    maturity = raw["maturity"]
    _require(name, maturity["level"] in MATURITIES, f"maturity is {maturity['level']!r}, not one of {MATURITIES}")
    _require(name, bool(sql.strip()), "rule.sql is empty")
    return Rule(
        name=name,
        title=raw["title"],
        condition=" ".join(raw["condition"].split()),
        variants=tuple(variants),
        inputs={role: tuple(facts) for role, facts in raw["inputs"].items()},
        absence_based=raw["absence_based"],
        traps=tuple(raw["traps"]),
        references=tuple(raw["references"]),
        maturity=maturity["level"],
        maturity_criteria=" ".join(maturity["criteria"].split()),
        sql=sql,
    )


@cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule that ships, by name. Raises RuleError listing every folder that is wrong."""
    rules, errors = [], []
    for folder in sorted(resources.files("detectors").joinpath("rules").iterdir(), key=lambda entry: entry.name):
        if not folder.is_dir() or folder.name.startswith(("_", ".")):
            continue
        try:
            text = folder.joinpath("rule.yaml").read_text(encoding="utf-8")
            rules.append(parse_rule(folder.name, text, folder.joinpath("rule.sql").read_text(encoding="utf-8")))
        except (RuleError, OSError, KeyError, yaml.YAMLError) as error:
            errors.append(f"{folder.name}: {error}")
    if errors:
        raise RuleError("the rule set does not load:\n" + "\n".join(errors))
    return tuple(rules)


def rule_set(rules: tuple[Rule, ...], tier: str = "control") -> str:
    """What `clean` is clean for, in words."""
    return f"{len(rules)} rules, {tier} tier; queued, not landed"
