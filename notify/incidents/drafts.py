"""Drafts of incidents, for the operator: what was asked for, checked and frozen. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from detectors.catalogue import Rule
from engine_hooks.conventions import CONTRACT_VERSION
from notify.answers import DEFAULT_SCOPES
from notify.errors import UsageError
from notify.gaps import why_incomplete
from notify.incidents.answers import Change
from notify.incidents.definition import AsOf, Definition, Incident, Pseudonym, Resolved
from notify.incidents.words import (
    checked,
    checked_effects,
    checked_rules,
    checked_scopes,
    checked_traffic,
    emitters_of,
    risk_labels,
    rules_digest,
)
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.question import Span
from notify.scope import TenantScope
from notify.times import parse_moment, utc

_NOW = """
SELECT
    s.judged_at AS judged_at, toUnixTimestamp64Nano(s.cursor) AS cursor, s.watermark AS watermark,
    s.evidence_from AS evidence_from, s.rule_set AS rule_set, e.version AS version
FROM detection_state AS s
INNER JOIN (SELECT judged_at, max(version) AS version FROM detection_ends GROUP BY judged_at) AS e
    ON e.judged_at = s.judged_at
"""
_KNOWN = "SELECT DISTINCT emitter, model FROM response_versions"
_ROTATED = """
SELECT DISTINCT r.tenant_key AS key, r.tenant AS tenant, f.donor_tenant_key AS donor_key, f.donor_tenant AS donor
FROM (SELECT * FROM foreign_ranges WHERE scope = 'cross_tenant') AS f
INNER JOIN (SELECT response_uid, tenant, tenant_key FROM responses WHERE scope = 'cross_tenant') AS r
    ON r.response_uid = f.response_uid
"""
LONGEST_NOTE = 2000


class Drafts:
    """Makes revisions. `tenant_scope` gives the pseudonyms of a tenant's name, and raises where nobody has it."""

    def __init__(
        self,
        store: OperatorStore,
        tenant_scope: Callable[[str], TenantScope],
        names: TenantNames,
        silence: timedelta,
        rules: Sequence[Rule],
    ) -> None:
        self._store = store
        self._tenant_scope = tenant_scope
        self._names = names
        self._silence = silence
        self._rules = tuple(rules)

    def draft(self, name: str, change: Change, before: Incident | None, *, anew: bool) -> Incident:
        """The revision that this change would make. `anew`: frozen by what is known now. Raises UsageError."""
        definition = self._definition(change, before.definition if before else None)
        now = datetime.now(UTC)
        as_of = self._now() if anew or before is None else before.as_of
        known = self._store.rows(_KNOWN)
        emitters = {row["emitter"] for row in known}
        checked("model", definition.models, {row["model"] for row in known if row["model"]})
        resolved = Resolved(
            emitters=emitters_of(definition.nodes, emitters)[1],
            excluded_emitters=emitters_of(definition.excluded_nodes, emitters)[1],
            risk_labels=risk_labels(definition.rules, definition.effects, self._rules),
            one_tenant=self._one_tenant() if anew or before is None else before.resolved.one_tenant,
        )
        note = (before.note if before else "") if change.note is None else change.note
        if len(note) > LONGEST_NOTE:
            raise UsageError(f"a note of {len(note)} characters is too long: at most {LONGEST_NOTE}")
        return Incident(
            name=name,
            revision=before.revision + 1 if before else 1,
            defined_at=now,
            note=note,
            definition=definition,
            resolved=resolved,
            as_of=as_of,
            gaps=tuple(why_incomplete(self._store.rows, definition.window, self._silence)),
            digest="",
        )

    def _definition(self, change: Change, before: Definition | None) -> Definition:
        start, end = self._window(change, before)
        effects = checked_effects(_first(change.effects, before.effects if before else None) or ("contamination",))
        tenants = before.excluded_tenants if before else ()
        if change.exclude_tenants is not None:
            tenants = self._pseudonyms(change.exclude_tenants)
        return Definition(
            start=start,
            end=end,
            models=tuple(dict.fromkeys(_first(change.models, before.models if before else None))),
            rules=checked_rules(_first(change.rules, before.rules if before else None), effects, self._rules),
            effects=effects,
            scopes=checked_scopes(_first(change.scopes, before.scopes if before else None) or DEFAULT_SCOPES),
            excluded_traffic=checked_traffic(
                _first(change.exclude_traffic, before.excluded_traffic if before else None)
            ),
            excluded_tenants=tenants,
            nodes=tuple(dict.fromkeys(_first(change.nodes, before.nodes if before else None))),
            excluded_nodes=tuple(
                dict.fromkeys(_first(change.exclude_nodes, before.excluded_nodes if before else None))
            ),
        )

    @staticmethod
    def _window(change: Change, before: Definition | None) -> tuple[datetime, datetime]:
        now = datetime.now(UTC)
        start = parse_moment(change.from_, now) if change.from_ else before.start if before else None
        end = parse_moment(change.to, now) if change.to else before.end if before else None
        if start is None or end is None:
            raise UsageError("an incident needs a window: give --from and --to")
        Span(start, end)  # not empty
        return start, end

    def _pseudonyms(self, tenants: Sequence[str]) -> tuple[Pseudonym, ...]:
        return tuple(one for tenant in dict.fromkeys(tenants) for one in self._tenant_scope(tenant).pseudonyms)

    def _now(self) -> AsOf:
        found = self._store.rows(_NOW)
        if not found:
            raise UsageError(
                "detection has not run yet, so there is nothing to freeze: `notify status` shows its passes"
            )
        (row,) = found
        return AsOf(
            version=row["version"],
            cursor=row["cursor"],
            judged_at=utc(row["judged_at"]),
            watermark=utc(row["watermark"]),
            evidence_from=utc(row["evidence_from"]) if row["evidence_from"] else None,
            rule_set=row["rule_set"],
            rules_digest=rules_digest(self._rules),
            contract=CONTRACT_VERSION,
        )

    def _one_tenant(self) -> tuple[tuple[str, str, str, str], ...]:
        """Pairs of recipient and donor that are one tenant under two keys, as far as the operator's list knows."""
        pairs = [(row["key"], row["tenant"], row["donor_key"], row["donor"]) for row in self._store.rows(_ROTATED)]
        same = [one for one in pairs if self._names.identity(*one[:2]) == self._names.identity(*one[2:])]
        return tuple(sorted(same))


def _first(*given: Sequence[str] | None) -> Sequence[str]:
    """The first that was given; () where none was."""
    return next((one for one in given if one is not None), ())
