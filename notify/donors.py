"""Role donor: which responses of the tenant had KV that responses of others read.

The tenant sees its own responses, their times, and how many others read them: nothing of the readers. The window
selects by when it was *read*, because an incident exposes what an earlier response left in the pool.
"""

from __future__ import annotations

from collections.abc import Sequence

from detectors.queries import Row
from notify.answers import AFFECTED_SCHEMA, Counts, DonorAnswer, DonorRow
from notify.evidence import assess, exit_code, plural
from notify.question import Question, tally
from notify.tenant_store import TenantStore
from notify.times import iso

_LISTED = """
SELECT
    e.own_uid AS own_uid, e.joined AS own_joined, e.gravest AS scope, e.only_derived AS derived,
    e.readers AS readers, e.delivered AS delivered,
    r.response_uid != '' AS known, r.started AS started, r.ended AS ended, r.model AS model,
    r.tokens_delivered AS tokens_delivered,
    if(l.uid = '', NULL, l.started) AS leg_started, if(l.uid = '', NULL, l.ended) AS leg_ended
FROM (
    SELECT
        own_uid, max(own_joined) AS joined,
        if(countIf(scope = 'cross_tenant') > 0, 'cross_tenant', any(scope)) AS gravest, min(derived) AS only_derived,
        uniqExact(reader) AS readers,
        uniqExactIf(reader, reader_tokens IS NULL OR reader_tokens > 0) AS delivered
    FROM tenant_exposures WHERE scope IN {scopes:Array(String)} AND WINDOW GROUP BY own_uid
) AS e
LEFT JOIN (
    SELECT * FROM tenant_own WHERE response_uid IN (SELECT own_uid FROM tenant_exposures)
) AS r ON r.response_uid = e.own_uid
LEFT JOIN (
    SELECT uid, min(time) AS started, max(time) AS ended FROM tenant_evidence
    WHERE uid IN (SELECT own_uid FROM tenant_exposures WHERE NOT own_joined) GROUP BY uid
) AS l ON l.uid = e.own_uid
ORDER BY if(known, r.started, leg_started), own_uid
"""
_READERS = """
SELECT uniqExact(reader) AS n FROM tenant_exposures WHERE scope IN {scopes:Array(String)} AND WINDOW
"""
_NOT_LISTED = """
SELECT scope, uniqExact(own_uid) AS n FROM tenant_exposures
WHERE scope NOT IN {scopes:Array(String)} AND WINDOW GROUP BY scope
"""
_VERDICTS = "SELECT verdict, sum(sign) AS n FROM everyone_verdicts WHERE WINDOW GROUP BY verdict HAVING n != 0"
_REASONS = """
SELECT arrayJoin(arrayDistinct(reasons)) AS reason, sum(sign) AS n FROM everyone_verdicts
WHERE verdict IN ('unknown', 'pending') AND WINDOW GROUP BY reason HAVING n != 0
"""
_UNATTRIBUTED = """
SELECT sumIf(sign, unattributed_slots > 0) AS n FROM everyone_verdicts WHERE verdict = 'violation' AND WINDOW
"""


def affected_as_donor(store: TenantStore, question: Question, gaps: Sequence[str]) -> DonorAnswer:
    """The answer for the tenant whose KV was read. `gaps`: why evidence is not complete for anybody."""
    scopes = list(question.scopes)

    def rows(sql: str) -> list[Row]:
        text = sql.replace("WINDOW", question.window.condition())
        return store.rows(question.scope, text, scopes=scopes, **question.window.params())

    listed = [_row(row) for row in rows(_LISTED)]
    counts = Counts(**{"violation": 0, "clean": 0, "unknown": 0, "pending": 0, **tally(rows(_VERDICTS), "verdict")})
    reasons = list(gaps)
    if (unattributed := rows(_UNATTRIBUTED)[0]["n"]) > 0:
        reasons.append(f"{plural(unattributed, 'response')} read KV that nobody vouches for: it may be this tenant's")
    evidence = assess(store, question, counts, reasons)
    return DonorAnswer(
        schema=AFFECTED_SCHEMA,
        tenant=question.tenant,
        tenant_keys=list(question.keys_seen),
        role="donor",
        incident=question.incident,
        window=question.window.shown(),
        scopes=scopes,
        responses=listed,
        foreign_responses=rows(_READERS)[0]["n"],
        counts=counts,
        reasons=tally(rows(_REASONS), "reason"),
        not_listed=tally(rows(_NOT_LISTED), "scope"),
        unsure=None,
        evidence=evidence,
        exit_code=exit_code(len(listed), evidence),
    )


def _row(row: Row) -> DonorRow:
    started, ended = (row["started"], row["ended"]) if row["known"] else (row["leg_started"], row["leg_ended"])
    return DonorRow(
        response_id=row["own_uid"],
        joined=bool(row["own_joined"]),
        started=iso(started) if started else None,
        ended=iso(ended) if ended else None,
        model=row["model"] or "",
        tokens_delivered=row["tokens_delivered"],
        scope=row["scope"],
        derived=bool(row["derived"]),
        foreign_responses=row["readers"],
        foreign_responses_delivered=row["delivered"],
    )
