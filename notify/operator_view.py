"""The operator's own views: across tenants, with names and nodes. Nothing here may be shown to a customer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from detectors.queries import Row
from engine_hooks.conventions import UNATTRIBUTED
from notify.answers import (
    Counts,
    OperatorRange,
    OperatorResponseAnswer,
    OperatorRow,
    Pair,
    PairsAnswer,
    ResponsesAnswer,
    Scope,
    TenantRow,
    TenantsAnswer,
    Verdict,
)
from notify.ids import MATCHES, WantedId
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.question import Span
from notify.responses import response_fields
from notify.times import iso

_PAIRS = """
SELECT
    r.tenant AS tenant, r.tenant_key AS tenant_key,
    if(f.donor_tenant = '', {nobody:String}, f.donor_tenant) AS donor, f.donor_tenant_key AS donor_key,
    f.scope AS scope, r.response_uid AS response, r.tokens_delivered AS delivered,
    groupUniqArray(if(f.donor_response_uid = '', f.donor_uid, f.donor_response_uid)) AS donor_responses,
    sum(f.slot_end - f.slot_start) AS slots
FROM (SELECT * FROM foreign_ranges WHERE scope IN {scopes:Array(String)} AND scope != 'no_writer') AS f
INNER JOIN (SELECT * FROM responses WHERE verdict = 'violation' AND WINDOW) AS r ON r.response_uid = f.response_uid
GROUP BY tenant, tenant_key, donor, donor_key, scope, response, delivered
"""
_VERDICTS = """
SELECT
    tenant_key, tenant, verdict, sum(sign) AS n,
    sumIf(sign, verdict = 'violation' AND scope IN ('cross_tenant', 'unattributed', '')) AS affected
FROM newest_responses WHERE WINDOW GROUP BY tenant_key, tenant, verdict HAVING n != 0
"""
_READS = """
SELECT
    page, slot_start, slot_end, token_start, scope, via, donor_rid, donor_tenant_key AS donor_key,
    if(donor_tenant = '' AND scope != 'no_writer', {nobody:String}, donor_tenant) AS donor,
    if(donor_response_uid = '', donor_uid, donor_response_uid) AS donor_response
FROM foreign_ranges WHERE response_uid = {response:String} ORDER BY token_start, page, slot_start
"""
_LISTED = """
SELECT * FROM responses
WHERE verdict IN {verdicts:Array(String)} AND ({nobody:String} = '' OR tenant = {nobody:String}) AND WINDOW
ORDER BY started, response_uid
"""


def counts_of(rows: Iterable[Row]) -> Counts:
    """Counts from rows of (verdict, n); several rows of one verdict add up."""
    sums = {"violation": 0, "clean": 0, "unknown": 0, "pending": 0}
    for row in rows:
        sums[row["verdict"]] += row["n"]
    return Counts(**sums)


class OperatorView:
    """Answers for the operator, with names where they are known."""

    def __init__(self, store: OperatorStore, names: TenantNames) -> None:
        self._store = store
        self._names = names

    def pairs(self, window: Span, scopes: Sequence[Scope]) -> PairsAnswer:
        """Who received whose KV in the window (by the time of the response that read it)."""
        rows = self._rows(_PAIRS, window, scopes=list(scopes), nobody=UNATTRIBUTED)
        grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in rows:
            recipient = self._names.identity(row["tenant_key"], row["tenant"])
            donor = self._names.identity(row["donor_key"], row["donor"])
            if recipient == donor and row["scope"] == "cross_tenant":
                continue  # one tenant under two keys
            grouped[recipient, donor, row["scope"]].append(row)
        pairs = [self._pair(group) for group in grouped.values()]
        pairs.sort(key=lambda pair: (*map(_shown, (pair.recipient, pair.donor)), pair.scope))
        return PairsAnswer(
            schema="pagewitness.pairs/1",
            view="operator",
            window=window.shown(),
            scopes=list(scopes),
            pairs=pairs,
            counts=counts_of(self._rows(_VERDICTS, window)),
        )

    def tenants(self, window: Span) -> TenantsAnswer:
        """Every tenant of which there are responses."""
        grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in self._rows(_VERDICTS, window):
            grouped[self._names.identity(row["tenant_key"], row["tenant"])].append(row)
        tenants = [
            TenantRow(
                tenant=self._names.reference(group[0]["tenant_key"], group[0]["tenant"]),
                counts=counts_of(group),
                affected=sum(row["affected"] for row in group),
            )
            for group in grouped.values()
        ]
        tenants.sort(key=lambda row: _shown(row.tenant))
        return TenantsAnswer(schema="pagewitness.tenants/1", view="operator", tenants=tenants)

    def responses(self, window: Span, verdicts: Sequence[Verdict], *, unattributed: bool) -> ResponsesAnswer:
        """Responses with these verdicts; `unattributed`: only those to requests that no gateway vouched for."""
        counted = self._rows(_VERDICTS, window)
        nobody = UNATTRIBUTED if unattributed else ""
        return ResponsesAnswer(
            schema="pagewitness.responses/1",
            view="operator",
            window=window.shown(),
            verdicts=list(verdicts),
            unattributed=unattributed,
            counts=counts_of(row for row in counted if not unattributed or row["tenant"] == UNATTRIBUTED),
            responses=[
                self._listed(row) for row in self._rows(_LISTED, window, verdicts=list(verdicts), nobody=nobody)
            ],
        )

    def response(self, wanted: WantedId) -> OperatorResponseAnswer:
        """One response with everything known of it. Raises UnknownError where there is none."""
        sql = f"SELECT *, donor_tenants AS other_tenants FROM responses WHERE {MATCHES} LIMIT 50"
        row = wanted.only(self._store.rows(sql, **wanted.params()))
        response = row["response_uid"]
        findings = self._store.rows(
            "SELECT * FROM findings WHERE response_uid = {response:String} ORDER BY time, rule, variant",
            response=response,
        )
        reads = [self._read(read) for read in self._store.rows(_READS, response=response, nobody=UNATTRIBUTED)]
        ranges = [
            {"token_start": read.tokens_from, "token_end": read.tokens_to, "scope": read.scope, "via": read.via}
            for read in reads
        ]
        return OperatorResponseAnswer(
            **response_fields(row, findings, ranges),
            view="operator",
            tenant=self._names.reference(row["tenant_key"], row["tenant"]),
            emitter=row["emitter"],
            rid=row["rid"],
            reads=reads,
        )

    def _read(self, row: Row) -> OperatorRange:
        return OperatorRange(
            tokens_from=row["token_start"],
            tokens_to=row["token_start"] + row["slot_end"] - row["slot_start"],
            scope=row["scope"],
            via=row["via"],
            page=row["page"],
            slot_start=row["slot_start"],
            slot_end=row["slot_end"],
            donor=self._names.reference(row["donor_key"], row["donor"]) if row["donor"] else None,
            donor_response_id=row["donor_response"],
            donor_rid=row["donor_rid"],
        )

    def _listed(self, row: Row) -> OperatorRow:
        return OperatorRow(
            response_id=row["response_uid"],
            rid=row["rid"],
            tenant=self._names.reference(row["tenant_key"], row["tenant"]),
            started=iso(row["started"]),
            ended=iso(row["ended"]) if row["ended"] else None,
            model=row["model"],
            emitter=row["emitter"],
            verdict=row["verdict"],
            scope=row["scope"] or None,
            reasons=sorted(row["reasons"]),
            tokens_delivered=row["tokens_delivered"],
        )

    def _pair(self, group: Sequence[Row]) -> Pair:
        first = group[0]
        delivered = {row["response"]: row["delivered"] or 0 for row in group}
        return Pair(
            recipient=self._names.reference(first["tenant_key"], first["tenant"]),
            donor=self._names.reference(first["donor_key"], first["donor"]),
            scope=first["scope"],
            responses=len(delivered),
            donor_responses=len({donor for row in group for donor in row["donor_responses"] if donor}),
            slots=sum(row["slots"] for row in group),
            tokens_delivered=sum(delivered.values()),
        )

    def _rows(self, sql: str, window: Span, **params: Any) -> list[Row]:
        return self._store.rows(sql.replace("WINDOW", window.condition()), **window.params(), **params)


def _shown(tenant: Any) -> tuple[bool, str]:
    return (tenant.name is None, tenant.name or tenant.pseudonym)
