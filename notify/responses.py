"""One response in detail, for the tenant whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detectors.queries import Row
from notify.answers import Finding, ReadRange, ResponseAnswer
from notify.exit_codes import ExitCode
from notify.ids import MATCHES, WantedId
from notify.scope import TenantScope
from notify.tenant_store import TenantStore
from notify.times import iso

_RANGES = """
SELECT token_start, token_end, scope, via FROM tenant_ranges
WHERE response_uid = {response:String} ORDER BY token_start
"""
_FINDINGS = "SELECT * FROM tenant_findings WHERE response_uid = {response:String} ORDER BY time, rule, variant"


def response_of_tenant(store: TenantStore, scope: TenantScope, wanted: WantedId) -> ResponseAnswer:
    """The response that `wanted` means, if it is one of the tenant's. Raises UsageError where there is none."""
    found = store.rows(scope, f"SELECT * FROM tenant_responses WHERE {MATCHES} LIMIT 50", **wanted.params())
    row = wanted.only(found)
    response = row["response_uid"]
    return ResponseAnswer(
        **response_fields(
            row,
            findings=store.rows(scope, _FINDINGS, response=response),
            ranges=store.rows(scope, _RANGES, response=response),
        )
    )


def response_fields(row: Row, findings: Sequence[Row], ranges: Sequence[Row]) -> dict[str, Any]:
    """The fields of a ResponseAnswer from a row of responses, its findings and its ranges in token order."""
    code = {"violation": ExitCode.FOUND, "clean": ExitCode.OK}.get(row["verdict"], ExitCode.INCOMPLETE)
    if row["verdict"] == "violation" and row["scope"] not in ("cross_tenant", "unattributed"):
        code = ExitCode.OK  # its own KV, or nobody's
    return {
        "schema_": "pagewitness.response/1",
        "response_id": row["response_uid"],
        "prefill_id": row["prefill_uid"] or None,
        "verdict": row["verdict"],
        "reasons": sorted(row["reasons"]),
        "clean_for": row["clean_for"],
        "scope": row["scope"] or None,
        "derived": bool(row["derived"]),
        "started": iso(row["started"]),
        "ended": iso(row["ended"]) if row["ended"] else None,
        "model": row["model"],
        "traffic": row["traffic"],
        "input_tokens": row["input_tokens"],
        "output_tokens": row["output_tokens"],
        "tokens_delivered": row["tokens_delivered"],
        "http_status": row["http_status"],
        "finish": row["finish"],
        "other_tenants": row["other_tenants"],
        "foreign_slots": row["foreign_slots"],
        "unattributed_slots": row["unattributed_slots"],
        "no_writer_slots": row["no_writer_slots"],
        "rules": sorted(row["rules"]),
        "findings": [_finding(finding) for finding in findings],
        "ranges": merge_ranges(ranges),
        "exit_code": code,
    }


def _finding(row: Row) -> Finding:
    return Finding(
        finding_id=row["finding_id"],
        rule=row["rule"],
        variant=row["variant"],
        effect=row["effect"],
        severity=row["severity"],
        time=iso(row["time"]),
        tokens_from=row["tokens_from"],
        tokens_to=row["tokens_to"],
        detail=row["detail"],
    )


def merge_ranges(rows: Sequence[Row]) -> list[ReadRange]:
    """Neighbouring ranges of one scope and one way as one: where the donor changes within is not the recipient's."""
    merged: list[ReadRange] = []
    for row in rows:
        last = merged[-1] if merged else None
        if last and (last.tokens_to, last.scope, last.via) == (row["token_start"], row["scope"], row["via"]):
            last.tokens_to = row["token_end"]
        else:
            start, end = row["token_start"], row["token_end"]
            merged.append(ReadRange(tokens_from=start, tokens_to=end, scope=row["scope"], via=row["via"]))
    return merged
