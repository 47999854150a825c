"""Running the rules over the rollup: rows out, findings with stable ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from detectors.catalogue import Rule
from detectors.queries import Queries
from detectors.settings import DetectionSettings


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of one rule. Its id has no rule version in it: the same violation keeps it for good."""

    finding_id: str
    rule: str
    variant: str
    effect: str
    severity: str
    subject: str
    response_uid: str
    tenant: str
    tenant_key: str
    time: datetime
    tokens_from: int | None
    tokens_to: int | None
    detail: str


def finding_id(rule: str, variant: str, subject: str) -> str:
    """Stable id of the violation of this rule variant by this subject, 32 hex digits."""
    return blake2b("\x00".join((rule, variant, subject)).encode(), digest_size=16).hexdigest()


def run_rules(store: Queries, rules: Sequence[Rule], settings: DetectionSettings) -> list[Finding]:
    """Findings of every rule over what the rollup holds now, one for each (rule, variant, subject)."""
    found: dict[str, Finding] = {}
    for rule in rules:
        params = {"stall_seconds": settings.stall_seconds} if "{stall_seconds" in rule.sql else {}
        for row in store.rows(rule.sql, params):
            variant = rule.variant(row["variant"])
            identity = finding_id(rule.name, variant.name, row["subject"])
            found[identity] = Finding(
                identity,
                rule.name,
                variant.name,
                variant.effect,
                variant.severity,
                row["subject"],
                row["response_uid"],
                row["tenant"],
                row["tenant_key"],
                row["time"],
                row["tokens_from"],
                row["tokens_to"],
                variant.means,
            )
    return list(found.values())


def label(finding: Finding) -> str:
    """`rule` or `rule.variant`, as people name it."""
    return f"{finding.rule}.{finding.variant}" if finding.variant else finding.rule
