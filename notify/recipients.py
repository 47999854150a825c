"""Role recipient: which responses of the tenant read foreign KV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from detectors.queries import Row
from notify.answers import AFFECTED_SCHEMA, Counts, OtherFindings, RecipientAnswer, RecipientRow, UnsureRow
from notify.evidence import assess, exit_code, plural
from notify.question import Question, tally
from notify.tenant_store import TenantStore
from notify.times import iso

_VIOLATIONS = """
SELECT
    response_uid, started, ended, model, tokens_delivered, scope, derived, other_tenants, foreign_slots,
    unattributed_slots, rules, http_status, finish
FROM tenant_responses WHERE verdict = 'violation' AND WINDOW ORDER BY started, response_uid
"""
_VERDICTS = "SELECT verdict, sum(sign) AS n FROM tenant_verdicts WHERE WINDOW GROUP BY verdict HAVING n != 0"
_REASONS = """
SELECT arrayJoin(arrayDistinct(reasons)) AS reason, sum(sign) AS n FROM tenant_verdicts
WHERE verdict IN ('unknown', 'pending') AND WINDOW GROUP BY reason HAVING n != 0
"""
_OTHER_FINDINGS = """
SELECT effect, rule, response_uid, count() AS n, countIf(WINDOW) AS inside
FROM (SELECT *, time AS started, time AS ended FROM tenant_findings)
WHERE effect != 'contamination' GROUP BY effect, rule, response_uid
"""
_UNSURE = """
SELECT * FROM tenant_responses WHERE verdict IN ('unknown', 'pending') AND WINDOW ORDER BY started, response_uid
"""
_NOBODYS = """
SELECT sum(sign) AS n FROM nobodys_verdicts
WHERE verdict = 'violation' AND scope IN ('cross_tenant', 'unattributed') AND WINDOW
"""


def affected_as_recipient(store: TenantStore, question: Question, gaps: Sequence[str]) -> RecipientAnswer:
    """The answer for the tenant whose responses read foreign KV. `gaps`: why evidence is not complete for anybody."""
    scopes = list(question.scopes)

    def rows(sql: str) -> list[Row]:
        text = sql.replace("WINDOW", question.window.condition())
        return store.rows(question.scope, text, **question.window.params())

    violations = rows(_VIOLATIONS)
    findings = rows(_OTHER_FINDINGS)
    named = _summed((row["response_uid"], row["n"]) for row in findings)
    by_rule = _summed(((row["effect"], row["rule"]), row["inside"]) for row in findings if row["inside"])
    listed = [_row(row, named[row["response_uid"]]) for row in violations if row["scope"] in scopes]
    others = Counter(row["scope"] for row in violations if row["scope"] not in scopes)
    counts = Counts(**{"violation": 0, "clean": 0, "unknown": 0, "pending": 0, **tally(rows(_VERDICTS), "verdict")})
    reasons = list(gaps)
    if (nobodys := rows(_NOBODYS)[0]["n"]) > 0:
        reasons.append(
            f"{plural(nobodys, 'affected response')} of unattributed requests: nobody vouches for whose they are"
        )
    evidence = assess(store, question, counts, reasons)
    return RecipientAnswer(
        schema=AFFECTED_SCHEMA,
        tenant=question.tenant,
        tenant_keys=list(question.keys_seen),
        role="recipient",
        incident=question.incident,
        window=question.window.shown(),
        scopes=scopes,
        responses=listed,
        counts=counts,
        reasons=tally(rows(_REASONS), "reason"),
        not_listed=tally([{"scope": scope, "n": n} for scope, n in others.items()], "scope"),
        other_findings=[
            OtherFindings(effect=effect, rule=rule, count=n)
            for (effect, rule), n in sorted(by_rule.items(), key=lambda one: (-one[1], one[0][1]))
        ],
        unsure=[_unsure(row) for row in rows(_UNSURE)] if question.include_unsure else None,
        evidence=evidence,
        exit_code=exit_code(len(listed), evidence),
    )


def _summed(pairs: Iterable[tuple[Any, int]]) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for key, count in pairs:
        sums[key] += count
    return sums


def _row(row: Row, other_findings: int) -> RecipientRow:
    return RecipientRow(
        response_id=row["response_uid"],
        started=iso(row["started"]),
        ended=iso(row["ended"]) if row["ended"] else None,
        model=row["model"],
        tokens_delivered=row["tokens_delivered"],
        scope=row["scope"],
        derived=bool(row["derived"]),
        other_tenants=row["other_tenants"],
        foreign_slots=row["foreign_slots"],
        unattributed_slots=row["unattributed_slots"],
        rules=sorted(row["rules"]),
        other_findings=other_findings,
        http_status=row["http_status"],
        finish=row["finish"],
    )


def _unsure(row: Row) -> UnsureRow:
    return UnsureRow(
        response_id=row["response_uid"],
        started=iso(row["started"]),
        ended=iso(row["ended"]) if row["ended"] else None,
        model=row["model"],
        tokens_delivered=row["tokens_delivered"],
        verdict=row["verdict"],
        reasons=sorted(row["reasons"]),
        http_status=row["http_status"],
        finish=row["finish"],
    )
