"""The operator's desk for incidents: defines them, lists them, and says what they come to, across tenants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from detectors.catalogue import Rule, load_rules
from detectors.queries import Queries
from notify.answers import Counts, Evidence
from notify.errors import UsageError
from notify.evidence import NEVER, exit_code, outside, plural
from notify.incidents.answers import (
    Change,
    DefinedAnswer,
    IncidentAffectedAnswer,
    IncidentAnswer,
    IncidentsAnswer,
    Moved,
    PreviewAnswer,
)
from notify.incidents.book import IncidentBook
from notify.incidents.definition import Incident, digest_of
from notify.incidents.drafts import Drafts
from notify.incidents.frozen import HITS, params, tables
from notify.incidents.shown import shown
from notify.incidents.totals import Totals
from notify.incidents.words import checked_name, effects_of
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.scope import TenantScope
from notify.times import iso

_MOVED = """
SELECT response_uid, any(tenant) AS tenant, any(tenant_key) AS tenant_key, min(at) AS started, max(after) AS now
FROM (
    SELECT response_uid, tenant, tenant_key, started AS at, 0 AS after FROM affected_before
    UNION ALL
    SELECT response_uid, tenant, tenant_key, started AS at, 1 AS after FROM affected_after
) GROUP BY response_uid HAVING count() = 1 ORDER BY started, response_uid
"""
_CHANGED = "the list is not the one that was frozen: verdicts of before it were added, changed or lost since"


class IncidentDesk:
    """Holds the rules in force and the operator's names. `tenant_scope` gives the pseudonyms of a tenant's name."""

    def __init__(
        self,
        handle: Queries,
        tenant_scope: Callable[[str], TenantScope],
        names: TenantNames,
        silence: timedelta = timedelta(minutes=1),
        rules: Sequence[Rule] | None = None,
    ) -> None:
        self.book = IncidentBook(handle)
        self._store = OperatorStore(handle)
        self._names = names
        self._rules = tuple(rules) if rules is not None else load_rules()
        self._drafts = Drafts(self._store, tenant_scope, names, silence, self._rules)
        self._writing = threading.Lock()  # two revisions at once would get one number

    def define(self, name: str, change: Change) -> DefinedAnswer:
        """Store a new incident; with `as_of` now, or a new revision of one that there is.

        Raises UsageError, and then writes nothing.
        """
        checked_name(name)
        with self._writing:
            before = self.book.find(name)
            if before is not None and change.as_of != "now":
                raise UsageError(
                    f"incident {name!r} exists: revision {before.revision}, frozen at "
                    f"{iso(before.as_of.judged_at)}. Add --as-of now to make revision {before.revision + 1} of it, or "
                    "choose another name"
                )
            if before is None and not (change.from_ and change.to):
                raise UsageError(f"a new incident needs a window: give {name!r} --from and --to")
            drafted = self._drafts.draft(name, change, before, anew=True)
            totals = self._totals(drafted)
            uids_digest, affected = totals.uids_digest()
            incident = replace(drafted, digest=digest_of(drafted.definition, drafted.as_of, uids_digest))
            self.book.append(incident)
        return DefinedAnswer(
            schema="pagewitness.incident_defined/1",
            view="operator",
            incident=self._shown(incident),
            previous=self._shown(before) if before else None,
            affected=affected,
        )

    def all(self) -> IncidentsAnswer:
        """The newest revision of each."""
        found = [self._shown(one) for one in self.book.all()]
        return IncidentsAnswer(schema="pagewitness.incidents/1", view="operator", incidents=found)

    def show(self, name: str, revision: int = 0) -> IncidentAnswer:
        """One revision, by default the newest. Raises UnknownError."""
        return self._shown(self.book.get(name, revision))

    def affected(self, name: str, revision: int = 0) -> IncidentAffectedAnswer:
        """What it comes to, as it was frozen. Raises UnknownError."""
        incident = self.book.get(name, revision)
        totals = self._totals(incident)
        coverage = totals.coverage()
        shares = totals.shares()
        rules, at_risk = totals.by_rule(effects_of(self._rules))
        rows = totals.rows()
        uids_digest = totals.digest_of_rows(rows)
        digest = digest_of(incident.definition, incident.as_of, uids_digest)
        changed = (
            [] if digest == incident.digest else ["the list is not the one that was frozen: the store was changed"]
        )
        evidence = self._evidence(incident, coverage.counts, changed)
        return IncidentAffectedAnswer(
            schema="pagewitness.incident_affected/1",
            view="operator",
            incident=self._shown(incident),
            affected=sum(one.affected for one in shares.tenants),
            derived=sum(one.derived for one in shares.tenants),
            at_risk=at_risk,
            tokens_delivered=sum(one.tokens_delivered for one in shares.tenants),
            by_tenant=shares.tenants,
            by_rule=rules,
            by_node=shares.nodes,
            by_day=shares.days,
            donors=totals.donors(),
            left_out=coverage.left_out,
            counts=coverage.counts,
            reasons=shares.reasons,
            evidence=evidence,
            responses=rows,
            uids_digest=uids_digest,
            digest=digest,
            reproduced=not changed,
            exit_code=exit_code(len(rows), evidence),
        )

    def preview(self, name: str, change: Change, revision: int = 0) -> PreviewAnswer:
        """What a changed definition would add and remove. Writes nothing. Raises UsageError, UnknownError."""
        before = self.book.get(name, revision)
        after = self._drafts.draft(name, change, before, anew=change.as_of == "now")
        totals = self._totals(after)
        coverage = totals.coverage()
        shares = totals.shares()
        uids_digest, found = totals.uids_digest()
        evidence = self._evidence(after, coverage.counts, [])
        moved = self._moved(before, after)
        old, new = before.definition.facts(), after.definition.facts()
        parts = [part for part in new if new[part] != old[part]]
        return PreviewAnswer(
            schema="pagewitness.incident_preview/1",
            view="operator",
            incident=self._shown(before),
            changed=[*parts, *(["as_of"] if change.as_of else [])],
            before=found - len(moved[True]) + len(moved[False]),
            after=found,
            added=moved[True],
            removed=moved[False],
            counts=coverage.counts,
            reasons=shares.reasons,
            unsure=shares.unsure,
            left_out=coverage.left_out,
            evidence=evidence,
            digest=digest_of(after.definition, after.as_of, uids_digest),
            exit_code=exit_code(found, evidence),
        )

    def _moved(self, before: Incident, after: Incident) -> dict[bool, list[Moved]]:
        """Responses that are affected in one of the two only: True for those of `after`."""
        values = params(before.definition, before.resolved, before.as_of, "_before")
        values |= params(after.definition, after.resolved, after.as_of, "_after")
        text = f"WITH {tables(before.resolved, '_before', HITS)}, {tables(after.resolved, '_after', HITS)} {_MOVED}"
        moved: dict[bool, list[Moved]] = {True: [], False: []}
        for row in self._store.rows(text, **values):
            tenant = self._names.reference(row["tenant_key"], row["tenant"])
            one = Moved(response_id=row["response_uid"], tenant=tenant, started=iso(row["started"]))
            moved[bool(row["now"])].append(one)
        return moved

    def _evidence(self, incident: Incident, counts: Counts, also: Sequence[str]) -> Evidence:
        """How sure it was when it was frozen."""
        as_of = incident.as_of
        because = [f"{plural(n, 'response')} {word}" for word, n in _unsure(counts).items() if n]
        if counts == Counts(violation=0, clean=0, unknown=0, pending=0):
            because.append("no response of the window had been judged")
        watermark = as_of.watermark if as_of.watermark >= NEVER else None
        because += [*incident.gaps, *outside(incident.definition.window, as_of.evidence_from, watermark), *also]
        return Evidence(
            starts=iso(as_of.evidence_from) if as_of.evidence_from else None,
            watermark=iso(watermark) if watermark else None,
            judged_at=iso(as_of.judged_at),
            clean_for=as_of.rule_set,
            complete=not because,
            incomplete_because=because,
        )

    def _totals(self, incident: Incident) -> Totals:
        return Totals(self._store, self._names, incident.definition, incident.resolved, incident.as_of)

    def _shown(self, incident: Incident) -> IncidentAnswer:
        return shown(incident, self._names)


def _unsure(counts: Counts) -> dict[str, int]:
    return {"unknown": counts.unknown, "pending": counts.pending}
