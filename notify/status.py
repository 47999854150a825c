"""The state of the service, for the operator: how far evidence and detection came. An operator's view."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from engine_hooks.version import VERSION
from notify.answers import Detection, SilentEmitter, StatusAnswer
from notify.evidence import NEVER
from notify.gaps import BOOTS, LOSSY, SHORTFALLS, shortfalls, silences, unrecorded
from notify.operator_store import OperatorStore
from notify.operator_view import counts_of
from notify.question import tally
from notify.times import iso, microseconds, utc

_BOOTS = "SELECT emitter, boot, count() AS facts FROM facts GROUP BY emitter, boot"


def service_status(
    store: OperatorStore, detection: Detection, key_ids: Sequence[str], silence: timedelta = timedelta(minutes=1)
) -> StatusAnswer:
    """What `notify status` shows. An emitter that no agent spoke of for `silence` is listed as silent."""
    stored = store.rows(_BOOTS)
    lossy = store.rows(LOSSY)
    states = store.rows("SELECT * FROM detection_state")
    state = states[0] if states else None
    unjudged = store.rows(
        "SELECT count() AS n FROM evidence WHERE toUnixTimestamp64Micro(received_at) > {cursor:Int64}"
        " AND leg_ordinal IS NOT NULL",
        cursor=microseconds(state["cursor"]) if state else 0,
    )[0]["n"]
    starts = state["evidence_from"] if state else None
    return StatusAnswer(
        schema="pagewitness.status/1",
        version=VERSION,
        facts=sum(row["facts"] for row in stored),
        emitters=len({row["emitter"] for row in stored}),
        boots=len(stored),
        unjudged=unjudged,
        rejects=tally(store.rows("SELECT reason, count() AS n FROM evidence_rejects GROUP BY reason"), "reason"),
        counts=counts_of(
            store.rows("SELECT verdict, sum(sign) AS n FROM newest_responses GROUP BY verdict HAVING n != 0")
        ),
        reasons=tally(
            store.rows(
                "SELECT reason, count() AS n FROM responses ARRAY JOIN arrayDistinct(reasons) AS reason"
                " WHERE verdict IN ('unknown', 'pending') GROUP BY reason"
            ),
            "reason",
        ),
        evidence_starts=iso(starts) if starts else None,
        watermark=iso(state["watermark"]) if state and utc(state["watermark"]) >= NEVER else None,
        judged_at=iso(state["judged_at"]) if state else None,
        rule_set=state["rule_set"] if state else "",
        lost=sum(max(row["newest_seq"], row["high_water"], row["stored"]) - row["stored"] for row in lossy),
        dropped=sum(row["drops"] for row in lossy),
        unrecorded=unrecorded(shortfalls(store.rows(SHORTFALLS))),
        silent=[
            SilentEmitter(emitter=one.emitter, since=iso(one.since))
            for one in silences(store.rows(BOOTS), datetime.now(UTC), silence)
        ],
        detection=detection,
        pseudonym_keys=list(key_ids),
    )
