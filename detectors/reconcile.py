"""Responses that nobody recorded: what a gateway delivered, held against the legs that were seen.

A leg of which not one fact came is in no count. A gateway knows of it all the same: it says which responses it handed
out, by the request id that it drew itself (`pagewitness.delivery`). A delivery of which no node saw a leg becomes a
response of its own, `unknown` because of `leg_not_seen`, until a leg with its id comes after all.

One request is a leg on prefill and one on decode; here either is enough, because a missing decode leg shows by itself.
Deliveries without an id (the engine draws its own for several choices), and those that were no answer, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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

_FRESH = f"""
SELECT emitter, boot, seq, time, rid, tenant_id, tenant_key, traffic, http_response_status_code AS status
FROM facts
WHERE received_at > fromUnixTimestamp64Nano({{since:Int64}}) AND received_at <= fromUnixTimestamp64Nano({{until:Int64}})
    AND span = 'pagewitness.delivery'
    AND delivery_state != 'failed' AND rid != '' AND status BETWEEN {ANSWERED[0]} AND {ANSWERED[1]}
ORDER BY emitter, boot, seq
"""
_SEEN = """
SELECT DISTINCT rid FROM evidence
WHERE rid IN {rids:Array(String)} AND span = 'pagewitness.request.admission'
    AND time BETWEEN {first:DateTime64(9, 'UTC')} AND {last:DateTime64(9, 'UTC')}
"""
_CAME = """
SELECT * FROM responses WHERE has(reasons, {reason:String}) AND rid IN (
    SELECT rid FROM evidence
    WHERE received_at > fromUnixTimestamp64Nano({since:Int64}) AND received_at <= fromUnixTimestamp64Nano({until:Int64})
        AND span = 'pagewitness.request.admission'
)
"""
_WAITING = "SELECT * FROM responses WHERE verdict = 'pending' AND has(reasons, {reason:String})"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One answer that a gateway handed out."""

    uid: str
    row: Row


def fresh_deliveries(store: Queries, since: int, until: int) -> list[Delivery]:
    """Answers that arrived in (since, until] (unix ns)."""
    return [Delivery(_uid(row), row) for row in store.rows(_FRESH, {"since": since, "until": until})]


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

    def run(self, fresh: Sequence[Delivery], since: int, until: int) -> int:
        """Judge fresh deliveries, those that still wait, and those whose leg arrived in (since, until] (unix ns).

        Returns how many responses changed.
        """
        found = self._store.rows(_CAME, {"reason": LEG_NOT_SEEN, "since": since, "until": until})
        rows = [row | {"verdict": RETIRED} for row in found]
        gone = {row["response_uid"] for row in found}
        waiting = self._store.rows(_WAITING, {"reason": LEG_NOT_SEEN})
        waiting = [row for row in waiting if row["response_uid"] not in gone]
        stood = {row["response_uid"] for row in waiting} | gone
        waiting += [self._response(one) for one in fresh if one.uid not in stood]
        for start in range(0, len(waiting), BATCH):
            rows += self._judged(waiting[start : start + BATCH], stood)
        if rows:
            table = [[(row | {"version": self._version})[name] for name in RESPONSE_COLUMNS] for row in rows]
            self._store.insert("response_versions", RESPONSE_COLUMNS, table)
        return len(rows)

    def _judged(self, waiting: Sequence[Row], stood: Iterable[str]) -> list[Row]:
        """What is to be written of these: nothing where a leg was seen and nothing stood, or where nothing changed."""
        times = [row["started"] for row in waiting]
        limits = {"first": min(times) - _DAY, "last": max(times) + _DAY}
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

    def _response(self, delivery: Delivery) -> Row:
        row = delivery.row
        plain: dict[str, Any] = dict.fromkeys(RESPONSE_COLUMNS, "")
        plain |= dict.fromkeys(("tokens_delivered", "output_tokens", "input_tokens"))
        plain |= dict.fromkeys(("foreign_slots", "unattributed_slots", "no_writer_slots", "donor_tenants"), 0)
        # by the receiver's clock, at the latest: no leg of it can have begun after
        time = row["time"] + self._clocks.to_receiver(row["emitter"], row["boot"], row["time"]).high
        return plain | {
            "response_uid": delivery.uid,
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
