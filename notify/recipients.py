"""Role recipient: which responses of the tenant read foreign KV."""

from __future__ import annotations

from collections.abc import Sequence

from detectors.queries import Row
from notify.answers import AFFECTED_SCHEMA, Counts, OtherFindings, RecipientAnswer, RecipientRow, UnsureRow
from notify.evidence import assess, exit_code, plural
from notify.question import Question, tally
from notify.tenant_store import TenantStore
from notify.times import iso

_LISTED = """
SELECT r.*, f.n AS other_findings
FROM (SELECT * FROM tenant_responses WHERE verdict = 'violation' AND scope IN {scopes:Array(String)} AND WINDOW) AS r
LEFT JOIN (
    SELECT response_uid, count() AS n FROM tenant_findings WHERE effect != 'contamination' GROUP BY response_uid
) AS f ON f.response_uid = r.response_uid
ORDER BY r.started, r.response_uid
"""
_VERDICTS = "SELECT verdict, sum(sign) AS n FROM tenant_verdicts WHERE WINDOW GROUP BY verdict HAVING n != 0"
_REASONS = """
SELECT arrayJoin(arrayDistinct(reasons)) AS reason, sum(sign) AS n FROM tenant_verdicts
WHERE verdict IN ('unknown', 'pending') AND WINDOW GROUP BY reason HAVING n != 0
"""
_NOT_LISTED = """
SELECT scope, count() AS n FROM tenant_responses
WHERE verdict = 'violation' AND scope NOT IN {scopes:Array(String)} AND WINDOW GROUP BY scope
"""
_OTHER_FINDINGS = """
SELECT effect, rule, count() AS n FROM (SELECT *, time AS started, time AS ended FROM tenant_findings)
WHERE effect != 'contamination' AND WINDOW GROUP BY effect, rule ORDER BY n DESC, rule
"""
_UNSURE = """
SELECT * FROM tenant_responses WHERE verdict IN ('unknown', 'pending') AND WINDOW ORDER BY started, response_uid
"""
_NOBODYS = """
SELECT sum(sign) AS n FROM everyone_verdicts
WHERE nobody AND verdict = 'violation' AND scope IN ('cross_tenant', 'unattributed') AND WINDOW
"""


def affected_as_recipient(store: TenantStore, question: Question, gaps: Sequence[str]) -> RecipientAnswer:
    """The answer for the tenant whose responses read foreign KV. `gaps`: why evidence is not complete for anybody."""
    scopes = list(question.scopes)

    def rows(sql: str) -> list[Row]:
        text = sql.replace("WINDOW", question.window.condition())
        return store.rows(question.scope, text, scopes=scopes, **question.window.params())

    listed = [_row(row) for row in rows(_LISTED)]
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
        not_listed=tally(rows(_NOT_LISTED), "scope"),
        other_findings=[
            OtherFindings(effect=row["effect"], rule=row["rule"], count=row["n"]) for row in rows(_OTHER_FINDINGS)
        ],
        unsure=[_unsure(row) for row in rows(_UNSURE)] if question.include_unsure else None,
        evidence=evidence,
        exit_code=exit_code(len(listed), evidence),
    )


def _row(row: Row) -> RecipientRow:
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
        other_findings=row["other_findings"] or 0,
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
