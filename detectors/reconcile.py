"""Responses that nobody recorded: what a gateway delivered, held against the responses that the nodes' legs stand for.

A leg of which not one fact came is in no count. A gateway knows of it all the same: it says which responses it handed
out, by the request id that it drew itself (`pagewitness.delivery`). A delivery whose id no judged response has becomes
a response of its own, `unknown` because of `leg_not_seen`, until a leg with its id comes after all.

That a prefill leg with the id was seen is not enough: where rooms are used again, it can count as another's. Deliveries
without an id (the engine draws its own for several choices), and those that were no answer, are left out.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from detectors.clocks import Clocks
from detectors.queries import Queries, Row
from detectors.results import RESPONSE_COLUMNS, RETIRED
from detectors.verdicts import LEG_NOT_SEEN

ANSWERED = (200, 299)
"""HTTP statuses of answers that an engine computed. What it refused may never have reached its scheduler."""

BATCH = 10_000
_DAY = timedelta(days=1)

_DELIVERED = f"""
SELECT emitter, boot, seq, time, rid, tenant_id, tenant_key, traffic, http_response_status_code AS status
FROM facts
WHERE {{which}} AND span = 'pagewitness.delivery'
    AND delivery_state != 'failed' AND rid != '' AND status BETWEEN {ANSWERED[0]} AND {ANSWERED[1]}
ORDER BY emitter, boot, seq
"""
_FRESH = _DELIVERED.format(
    which="received_at > fromUnixTimestamp64Nano({since:Int64})"
    " AND received_at <= fromUnixTimestamp64Nano({until:Int64})"
)
_OF_RIDS = _DELIVERED.format(
    which="rid IN {rids:Array(String)} AND time BETWEEN {first:DateTime64(9, 'UTC')} AND {last:DateTime64(9, 'UTC')}"
)
_TAKEN_BACK = """
SELECT rid, started FROM response_versions
WHERE version >= {first:Int64} AND verdict = 'retired' AND rid != '' AND NOT has(reasons, {reason:String})
"""
_SEEN = """
SELECT DISTINCT rid FROM responses
WHERE rid IN {rids:Array(String)} AND NOT has(reasons, {reason:String})
    AND started BETWEEN {first:DateTime64(9, 'UTC')} AND {last:DateTime64(9, 'UTC')}
"""
_CAME = """
SELECT * FROM responses WHERE has(reasons, {reason:String}) AND rid IN (
    SELECT rid FROM response_versions WHERE version >= {first:Int64} AND NOT has(reasons, {reason:String})
)
"""
_WAITING = "SELECT * FROM responses WHERE verdict = 'pending' AND has(reasons, {reason:String})"


def _uid(row: Row) -> str:
    """Id of the response that a delivery stands for, for as long as no leg does: from the identity of its fact."""
    identity = "|".join((row["emitter"], row["boot"], str(row["seq"])))
    return blake2b(identity.encode(), digest_size=16, person=b"pw.delivery").hexdigest()


class Reconciliation:
    """Writes, under one version, the responses of which only a delivery is known, and takes back those that were
    found."""

    def __init__(self, store: Queries, clocks: Clocks, watermark: datetime, version: int) -> None:
        self._store = store
        self._clocks = clocks
        self._watermark = watermark
        self._version = version

    def run(self, since: int, until: int, first_version: int) -> int:
        """Judge deliveries that arrived in (since, until] (unix ns), and those that still wait.

        `first_version` is that of the responses that this pass has written: what it says of a response's legs may
        answer for a delivery, or no longer. Returns how many responses changed.
        """
        found = self._store.rows(_CAME, {"reason": LEG_NOT_SEEN, "first": first_version})
        waiting = self._store.rows(_WAITING, {"reason": LEG_NOT_SEEN})
        candidates = {row["response_uid"]: row for row in (*found, *waiting)}
        stood = set(candidates)
        for row in (*self._store.rows(_FRESH, {"since": since, "until": until}), *self._taken_back(first_version)):
            candidates.setdefault(_uid(row), self._response(row))
        pending = list(candidates.values())
        rows: list[Row] = []
        for start in range(0, len(pending), BATCH):
            rows += self._judged(pending[start : start + BATCH], stood)
        if rows:
            table = [[(row | {"version": self._version})[name] for name in RESPONSE_COLUMNS] for row in rows]
            self._store.insert("response_versions", RESPONSE_COLUMNS, table)
        return len(rows)

    def _taken_back(self, first_version: int) -> list[Row]:
        """Deliveries of responses that this pass has taken back: their legs turned out to be another response's."""
        gone = self._store.rows(_TAKEN_BACK, {"first": first_version, "reason": LEG_NOT_SEEN})
        if not gone:
            return []
        times = [row["started"] for row in gone]
        limits = {"first": min(times) - _DAY, "last": max(times) + _DAY}
        return self._store.rows(_OF_RIDS, {"rids": sorted({row["rid"] for row in gone}), **limits})

    def _judged(self, waiting: Sequence[Row], stood: Container[str]) -> list[Row]:
        """What is to be written of these: nothing where a leg was seen and nothing stood, or where nothing changed."""
        times = [row["started"] for row in waiting]
        limits = {"first": min(times) - _DAY, "last": max(times) + _DAY, "reason": LEG_NOT_SEEN}
        rids = sorted({row["rid"] for row in waiting})
        seen = {row["rid"] for row in self._store.rows(_SEEN, {"rids": rids, **limits})}
        rows = []
        for row in waiting:
            stands = row["response_uid"] in stood
            if row["rid"] in seen:
                verdict = RETIRED if stands else ""
            else:
                verdict = self._verdict(row)
            if verdict and not (stands and verdict == row["verdict"]):
                rows.append(row | {"verdict": verdict})
        return rows

    def _verdict(self, row: Row) -> str:
        """`pending` while a leg can still be under way."""
        return "unknown" if self._watermark > row["started"] else "pending"

    def _response(self, row: Row) -> Row:
        """The response that a delivery stands for, of which nothing else is known."""
        plain: dict[str, Any] = dict.fromkeys(RESPONSE_COLUMNS, "")
        plain |= dict.fromkeys(("tokens_delivered", "output_tokens", "input_tokens"))
        plain |= dict.fromkeys(("foreign_slots", "unattributed_slots", "no_writer_slots", "donor_tenants"), 0)
        # by the receiver's clock, at the latest: no leg of it can have begun after
        time = row["time"] + self._clocks.to_receiver(row["emitter"], row["boot"], row["time"]).high
        return plain | {
            "response_uid": _uid(row),
            "tenant": row["tenant_id"],
            "tenant_key": row["tenant_key"],
            "traffic": row["traffic"],
            "rid": row["rid"],
            "emitter": row["emitter"],
            "started": time,
            "ended": time,
            "verdict": "pending",
            "reasons": [LEG_NOT_SEEN],
            "derived": False,
            "http_status": row["status"],
            "rules": [],
            "exposure_rules": [],
        }
