"""What an incident comes to: counts, shares and coverage, for the operator. Every question is one set-based query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from detectors.queries import Row
from engine_hooks.conventions import UNATTRIBUTED
from notify.answers import Counts, TenantRef
from notify.incidents.answers import (
    DayShare,
    DonorShare,
    IncidentRow,
    LeftOut,
    NodeShare,
    RuleShare,
    TenantShare,
    Unsure,
)
from notify.incidents.definition import AsOf, Definition, Resolved
from notify.incidents.frozen import HITS, LATER, params, tables
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.question import tally
from notify.render.operator_table import tenant_words
from notify.times import iso

_COVERAGE = """
SELECT
    if(left_out = '' AND verdict = 'violation' AND NOT has({scopes:Array(String)}, scope), 'scope', left_out) AS why,
    multiIf(why = 'traffic', traffic, why = 'node', emitter, why = 'rule', arrayStringConcat(rules, ' '),
        why = 'scope', scope, why = 'effect', 'contamination', '') AS what,
    if(why = 'tenant', tenant_key, '') AS key, if(why = 'tenant', tenant, '') AS whose, verdict, sum(sign) AS n
FROM judged GROUP BY why, what, key, whose, verdict HAVING n != 0
"""
_SHARES = """
SELECT
    grouping(emitter) = 0 AS of_node, grouping(day) = 0 AS of_day, tenant_key, tenant, emitter, day,
    sumIf(sign, hit AND NOT derived) AS affected, sumIf(sign, hit AND derived) AS derived_too,
    sumIf(sign * tokens_delivered, hit) AS tokens, sumIf(sign, verdict = 'unknown') AS unknown,
    sumIf(sign, verdict = 'pending') AS pending, sumMap(why) AS reasons
FROM (
    SELECT tenant_key, tenant, emitter, toDate(started, 'UTC') AS day, derived, tokens_delivered, verdict, sign,
        if(hit, [], arrayDistinct(reasons)) AS distinct_reasons,
        mapFromArrays(distinct_reasons, arrayMap(one -> toInt64(sign), distinct_reasons)) AS why,
        verdict = 'violation' AND has({scopes:Array(String)}, scope) AS hit
    FROM judged WHERE left_out = '' AND verdict != 'clean' AND (hit OR verdict IN ('unknown', 'pending'))
)
GROUP BY GROUPING SETS ((tenant_key, tenant), (emitter), (day))
HAVING affected != 0 OR derived_too != 0 OR unknown != 0 OR pending != 0
"""
_RULES = """
SELECT rule, countIf(hit) AS affected, countIf(NOT hit) AS at_risk FROM (
    SELECT
        verdict = 'violation' AND has({scopes:Array(String)}, scope) AS hit,
        arrayJoin(arrayConcat(if(hit, rules, []),
            arrayFilter(one -> has({risk_labels:Array(String)}, one), exposure_rules))) AS rule
    FROM judged WHERE left_out = '' AND (hit OR hasAny(exposure_rules, {risk_labels:Array(String)}))
) GROUP BY rule ORDER BY affected DESC, at_risk DESC, rule
"""
_AT_RISK = """
SELECT count() AS n FROM judged
WHERE left_out = '' AND NOT (verdict = 'violation' AND has({scopes:Array(String)}, scope))
    AND hasAny(exposure_rules, {risk_labels:Array(String)})
"""
_ROWS = "SELECT * FROM affected ORDER BY started, response_uid"
_DONORS = """
SELECT f.donor_tenant_key AS tenant_key, f.donor_tenant AS tenant,
    groupUniqArray(f.response_uid) AS readers,
    groupUniqArray(if(f.donor_response_uid = '', f.donor_uid, f.donor_response_uid)) AS own
FROM foreign_range_versions AS f
INNER JOIN (SELECT response_uid, version, tenant, tenant_key FROM affected) AS r
    ON r.response_uid = f.response_uid AND r.version = f.version
WHERE has({scopes:Array(String)}, f.scope) AND f.scope IN ('cross_tenant', 'internal_donor')
    AND (r.tenant_key, r.tenant) != (f.donor_tenant_key, f.donor_tenant)
    AND NOT has({one_tenant:Array(Tuple(String, String, String, String))},
        (r.tenant_key, r.tenant, f.donor_tenant_key, f.donor_tenant))
GROUP BY tenant_key, tenant
"""
_UIDS = """
SELECT lower(hex(SHA256(arrayStringConcat(arrayMap(one -> concat(one, '\\n'), arraySort(groupArray(response_uid)))))))
    AS digest, count() AS n
FROM affected
"""

MOST_LATER = 20_000
"""Responses judged again since that are looked up one by one; with more, everything is read from the versions."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every response of the window: those of the incident by verdict, and those left out by reason."""

    counts: Counts
    left_out: list[LeftOut]


@dataclass(frozen=True, slots=True)
class Shares:
    """What of an incident belongs to whom, most first; days in their order."""

    tenants: list[TenantShare]
    nodes: list[NodeShare]
    days: list[DayShare]
    reasons: dict[str, int]
    unsure: list[Unsure]


class Totals:
    """Asks about one frozen definition."""

    def __init__(
        self, store: OperatorStore, names: TenantNames, definition: Definition, resolved: Resolved, as_of: AsOf
    ) -> None:
        self._store = store
        self._names = names
        self._signed = f"WITH {tables(resolved, signed=True)} "
        self._all = f"WITH {tables(resolved)} "
        self._later: list[str] | None = None
        self._hits = f"WITH {tables(resolved, candidates=HITS)} "
        self._params = params(definition, resolved, as_of) | {"risk_labels": list(resolved.risk_labels)}

    @staticmethod
    def digest_of_rows(rows: Sequence[IncidentRow]) -> str:
        """What `uids_digest` gives, from the affected responses."""
        return sha256("".join(f"{uid}\n" for uid in sorted(row.response_id for row in rows)).encode()).hexdigest()

    def uids_digest(self) -> tuple[str, int]:
        """SHA-256 of the sorted ids of affected responses, and how many they are."""
        (row,) = self._rows(_UIDS, self._hits)
        return row["digest"], row["n"]

    def coverage(self) -> Coverage:
        """Verdicts of what the incident is about, and what it leaves out. A scope that it does not list is of both."""
        counts = {"violation": 0, "clean": 0, "unknown": 0, "pending": 0}
        left: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in self._counted(_COVERAGE):
            if row["why"] in ("", "scope"):
                counts[row["verdict"]] += row["n"]
            if row["why"]:
                what = tenant_words(self._names.reference(row["key"], row["whose"])) if row["whose"] else row["what"]
                left[row["why"], what][row["verdict"]] += row["n"]
        return Coverage(
            Counts(**counts),
            [
                LeftOut(
                    by=why,  # type: ignore[arg-type]  # the words of frozen.LEFT_OUT, and scope
                    what=what,
                    responses=sum(found.values()),
                    violations=found["violation"],
                    unsure=found["unknown"] + found["pending"],
                )
                for (why, what), found in sorted(left.items())
            ],
        )

    def shares(self) -> Shares:
        """By recipient, by node, by day; and whose responses are unknown or pending, and why."""
        rows = self._counted(_SHARES)
        by_tenant = self._grouped(row for row in rows if not row["of_node"] and not row["of_day"])
        tenants = [TenantShare(tenant=tenant, **_share(group)) for tenant, group in by_tenant]
        nodes = [NodeShare(node=row["emitter"], **_share([row])) for row in rows if row["of_node"]]
        days = [DayShare(day=row["day"].isoformat(), **_share([row])) for row in rows if row["of_day"]]
        unsure = [
            Unsure(
                tenant=tenant,
                unknown=sum(row["unknown"] for row in group),
                pending=sum(row["pending"] for row in group),
                reasons=_added(row["reasons"] for row in group),
            )
            for tenant, group in by_tenant
        ]
        return Shares(
            tenants=sorted(tenants, key=lambda one: (-one.affected, -one.derived, tenant_words(one.tenant))),
            nodes=sorted(nodes, key=lambda one: (-one.affected, -one.derived, one.node)),
            days=sorted(days, key=lambda one: one.day),
            reasons=_added(one.reasons for one in unsure),
            unsure=sorted(
                (one for one in unsure if one.unknown + one.pending),
                key=lambda one: (-one.unknown - one.pending, tenant_words(one.tenant)),
            ),
        )

    def by_rule(self, effects: dict[str, str]) -> tuple[list[RuleShare], int]:
        """Responses by rule, and how many are at risk and not affected."""
        shares = [
            RuleShare(
                rule=row["rule"],
                effect=effects.get(row["rule"], "contamination" if row["affected"] else "exposure_risk"),
                affected=row["affected"],
                at_risk=row["at_risk"],
            )
            for row in self._rows(_RULES, self._hits)
        ]
        return shares, self._rows(_AT_RISK, self._hits)[0]["n"]

    def donors(self) -> list[DonorShare]:
        """Whose KV affected responses read, most read first."""
        found = []
        for tenant, group in self._grouped(self._rows(_DONORS, self._hits)):
            readers = {reader for row in group for reader in row["readers"]}
            own = {uid for row in group for uid in row["own"] if uid}
            found.append(DonorShare(tenant=tenant, read_by=len(readers), own_responses=len(own)))
        return sorted(found, key=lambda one: (-one.read_by, tenant_words(one.tenant)))

    def rows(self) -> list[IncidentRow]:
        """The affected responses, by time."""
        return [self._row(row) for row in self._rows(_ROWS, self._hits)]

    def _row(self, row: Row) -> IncidentRow:
        return IncidentRow(
            response_id=row["response_uid"],
            tenant=self._names.reference(row["tenant_key"], row["tenant"]),
            started=iso(row["started"]),
            ended=iso(row["ended"]) if row["ended"] else None,
            model=row["model"],
            node=row["emitter"],
            traffic=row["traffic"],
            scope=row["scope"],
            derived=bool(row["derived"]),
            rules=sorted(row["rules"]),
            tokens_delivered=row["tokens_delivered"],
            foreign_slots=row["foreign_slots"],
            http_status=row["http_status"],
            finish=row["finish"],
        )

    def _grouped(self, rows: Iterable[Row]) -> list[tuple[TenantRef, list[Row]]]:
        """Rows by tenant: rotated keys of a name that the operator's list has do not split it."""
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: (row["tenant"] != UNATTRIBUTED, row["tenant_key"], row["tenant"])):
            groups[self._names.identity(row["tenant_key"], row["tenant"])].append(row)
        return [(self._names.reference(group[0]["tenant_key"], group[0]["tenant"]), group) for group in groups.values()]

    def _rows(self, sql: str, over: str) -> list[Row]:
        return self._store.rows(over + sql, **self._params)

    def _counted(self, sql: str) -> list[Row]:
        """Counts over everything, by signs. A pass of detection that writes meanwhile can make a response one of those
        whose newest version is later: then they are counted again, and at last from the versions alone."""
        if self._later is None:
            self._later = self._asked_later()
        for _ in range(3):
            if len(self._later) == MOST_LATER:
                break
            rows = self._store.rows(self._signed + sql, **self._params, later=self._later)
            before, self._later = self._later, self._asked_later()
            if self._later == before:
                return rows
        return self._rows(sql, self._all)

    def _asked_later(self) -> list[str]:
        found = self._store.rows(LATER, as_of=self._params["as_of"], most=MOST_LATER)
        return [row["response_uid"] for row in found]


def _share(rows: Sequence[Row]) -> dict[str, int]:
    columns = {"affected": "affected", "derived": "derived_too", "tokens_delivered": "tokens"}
    columns |= {"unknown": "unknown", "pending": "pending"}
    return {name: sum(row[column] or 0 for row in rows) for name, column in columns.items()}


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for each in counts:
        for name, count in each.items():
            sums[name] += count
    return tally([{"name": name, "n": count} for name, count in sums.items() if count], "name")
