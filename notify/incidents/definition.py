"""What an incident is: a question in words that are checked, and the moment at which its answer was frozen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from notify.answers import Effect, Scope
from notify.question import Span
from notify.times import iso

Pseudonym = tuple[str, str]
"""(Id of the key, pseudonym)."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Which responses an incident is about. An empty filter (models, rules, nodes) lets everything through."""

    start: datetime
    end: datetime
    models: tuple[str, ...]
    rules: tuple[str, ...]  # `rule` or `rule.variant`
    effects: tuple[Effect, ...]
    scopes: tuple[Scope, ...]
    excluded_traffic: tuple[str, ...]
    excluded_tenants: tuple[Pseudonym, ...]  # every pseudonym of each
    nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]

    @property
    def window(self) -> Span:
        """Responses in progress at some time in it are meant."""
        return Span(self.start, self.end)

    def facts(self) -> dict[str, Any]:
        """For the digest and for comparing: plain values, in one order."""
        return {
            "from": iso(self.start),
            "to": iso(self.end),
            "models": sorted(self.models),
            "rules": sorted(self.rules),
            "effects": sorted(self.effects),
            "scopes": sorted(self.scopes),
            "excluded_traffic": sorted(self.excluded_traffic),
            "excluded_tenants": sorted(map(list, self.excluded_tenants)),
            "nodes": sorted(self.nodes),
            "excluded_nodes": sorted(self.excluded_nodes),
        }


@dataclass(frozen=True, slots=True)
class AsOf:
    """Up to where evidence and verdicts count.

    `version` decides: it is that of the newest verdict when a pass of detection ended, and later verdicts have higher
    ones. `cursor` says the same of evidence: unix ns of the arrival of the newest fact which that pass judged. They
    come from two clocks and are never compared with each other.
    """

    version: int
    cursor: int
    judged_at: datetime
    watermark: datetime
    evidence_from: datetime | None
    rule_set: str
    rules_digest: str
    contract: int

    def facts(self) -> dict[str, Any]:
        """For the digest: plain values, in one order."""
        return {
            "version": self.version,
            "cursor": self.cursor,
            "rule_set": self.rule_set,
            "rules_digest": self.rules_digest,
            "contract": self.contract,
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """What words of a definition stood for when it was made, frozen with it: it must not move either."""

    emitters: tuple[str, ...]  # of `nodes`
    excluded_emitters: tuple[str, ...]
    risk_labels: tuple[str, ...]  # `rule.variant` of the effects other than contamination
    one_tenant: tuple[tuple[str, str, str, str], ...]  # recipient and donor that the operator's list says are one


@dataclass(frozen=True, slots=True)
class Incident:
    """One revision of an incident."""

    name: str
    revision: int
    defined_at: datetime
    note: str
    definition: Definition
    resolved: Resolved
    as_of: AsOf
    gaps: tuple[str, ...]  # why evidence of the window was not complete, without a name of a node
    digest: str


def moment(ns: int) -> datetime:
    """Unix ns as a moment, cut to microseconds."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=ns // 1000)


def digest_of(definition: Definition, as_of: AsOf, uids_digest: str) -> str:
    """What two runs that agree have in common, 64 hex digits.

    SHA-256 over three lines: the definition and what it is frozen by, each as JSON with sorted keys and no blanks, and
    the SHA-256 of the sorted ids of the affected responses, each followed by a line feed.
    """
    lines = (_canonical(definition.facts()), _canonical(as_of.facts()), uids_digest)
    return sha256("\n".join(lines).encode()).hexdigest()


def _canonical(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))
