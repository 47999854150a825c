"""What a pass writes: only what changed, each as a new version.

A pass can be cut off between any two writes, and the next one begins at the same cursor. So what it compares with is
read from the versions, and what it left undone is found again: rows above the newest version of the last pass that
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from detectors.findings import Finding
from detectors.judgement import Judgement
from detectors.legs import Leg
from detectors.newest import last_end, settle
from detectors.queries import Queries

RESPONSE_COLUMNS = (
    "response_uid",
    "version",
    "prefill_uid",
    "tenant",
    "tenant_key",
    "traffic",
    "rid",
    "model",
    "emitter",
    "started",
    "ended",
    "verdict",
    "reasons",
    "clean_for",
    "scope",
    "derived",
    "tokens_delivered",
    "output_tokens",
    "input_tokens",
    "http_status",
    "finish",
    "foreign_slots",
    "unattributed_slots",
    "no_writer_slots",
    "donor_tenants",
    "rules",
    "exposure_rules",
)
RETIRED = "retired"
"""Verdict of a row that the view `responses` leaves out: its leg turned out to belong to another row."""

RANGE_COLUMNS = (
    "response_uid",
    "version",
    "page",
    "slot_start",
    "slot_end",
    "token_start",
    "scope",
    "via",
    "donor_uid",
    "donor_response_uid",
    "donor_tenant",
    "donor_tenant_key",
    "donor_rid",
)
FINDING_COLUMNS = (*(field.name for field in fields(Finding)), "version", "retracted")

_KNOWN = f"""
SELECT * FROM (
    SELECT * FROM response_versions WHERE response_uid IN {{keys:Array(String)}}
    ORDER BY response_uid DESC, version DESC LIMIT 1 BY response_uid
) WHERE verdict != '{RETIRED}'
"""
_STOOD_CLEAN = """
SELECT response_uid FROM response_versions WHERE response_uid IN {keys:Array(String)} AND version <= {end:UInt64}
GROUP BY response_uid HAVING argMax(verdict, version) = 'clean'
"""
_RANGES = "SELECT * FROM foreign_range_versions WHERE response_uid IN {keys:Array(String)}"
_FINDINGS = """
SELECT * EXCEPT (retracted) FROM (
    SELECT * FROM finding_versions WHERE finding_id IN {ids:Array(String)} OR finding_id IN (
        SELECT finding_id FROM finding_versions WHERE response_uid IN {keys:Array(String)})
    ORDER BY finding_id DESC, version DESC LIMIT 1 BY finding_id
) WHERE NOT retracted AND (finding_id IN {ids:Array(String)} OR response_uid IN {keys:Array(String)})
"""


@dataclass(frozen=True, slots=True)
class Turned:
    """A response that was clean and no longer is."""

    tenant: str
    tenant_key: str
    started: datetime


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch changed: how many responses, and those among them that were clean and no longer are."""

    changed: int
    turned: list[Turned]


class Results:
    """Writes the judgements and findings of one pass under one version, in nanoseconds of its start."""

    def __init__(self, store: Queries, version: int, rule_set: str, response_of: Callable[[Leg], str]) -> None:
        self._store = store
        self._version = version
        self._rule_set = rule_set
        self._response_of = response_of

    def write(self, judgements: Sequence[Judgement], findings: Sequence[Finding]) -> Written:
        """Store what differs from what is there."""
        uids = [judgement.leg.uid for judgement in judgements]
        written = self._write_responses(judgements, uids)
        self._write_findings(findings, uids)
        settle(self._store, self._version)
        return written

    def _write_responses(self, judgements: Sequence[Judgement], uids: Sequence[str]) -> Written:
        known = {row["response_uid"]: row for row in self._select(_KNOWN, keys=uids)}
        stored_ranges: dict[tuple[str, int], set[tuple[Any, ...]]] = {}
        for row in self._select(_RANGES, keys=uids):
            key = tuple(row[name] for name in RANGE_COLUMNS if name not in ("response_uid", "version"))
            stored_ranges.setdefault((row["response_uid"], row["version"]), set()).add(key)
        rows, ranges = [], []
        for judgement in judgements:
            row = self._response_row(judgement)
            mine = self._range_rows(judgement)
            before = known.get(judgement.leg.uid)
            if (
                before is not None
                and all(before[name] == row[name] for name in RESPONSE_COLUMNS if name != "version")
                and stored_ranges.get((judgement.leg.uid, before["version"]), set()) == {tuple(one[2:]) for one in mine}
            ):
                continue
            rows.append([row[name] for name in RESPONSE_COLUMNS])
            ranges.extend(mine)
        # ranges first: they are those of the response row of their version, and nobody's before it is there
        if ranges:
            self._store.insert("foreign_range_versions", RANGE_COLUMNS, ranges)
        if rows:
            self._store.insert("response_versions", RESPONSE_COLUMNS, rows)
        return Written(len(rows), self._turned(judgements))

    def _turned(self, judgements: Sequence[Judgement]) -> list[Turned]:
        """Those that were clean when the last pass ended. A pass that was cut off may have written since that they no
        longer are, and has told nobody."""
        unclean = {one.leg.uid: one for one in judgements if one.verdict.verdict != "clean"}
        end = last_end(self._store)
        stood = [row["response_uid"] for row in self._select(_STOOD_CLEAN, keys=list(unclean), end=end)]
        found = [unclean[uid] for uid in sorted(stood)]
        return [Turned(one.tenant, one.tenant_key, one.leg.started) for one in found]

    def retire(self, prefill_uids: Collection[str]) -> None:
        """Take back what stood under these prefill legs before their decode legs were seen."""
        stood = self._select(_KNOWN, keys=sorted(prefill_uids))
        rows = [
            [(row | {"version": self._version, "verdict": RETIRED})[name] for name in RESPONSE_COLUMNS] for row in stood
        ]
        if rows:
            self._store.insert("response_versions", RESPONSE_COLUMNS, rows)
            settle(self._store, self._version)

    def _response_row(self, judgement: Judgement) -> dict[str, Any]:
        leg = judgement.leg
        return {
            "response_uid": leg.uid,
            "version": self._version,
            "prefill_uid": judgement.prefill_uid,
            "tenant": judgement.tenant,
            "tenant_key": judgement.tenant_key,
            "traffic": leg.traffic,
            "rid": judgement.rid,
            "model": judgement.model,
            "emitter": leg.emitter,
            "started": leg.started,
            "ended": leg.ended,
            "verdict": judgement.verdict.verdict,
            "reasons": list(judgement.verdict.reasons),
            "clean_for": self._rule_set if judgement.verdict.verdict == "clean" else "",
            "scope": judgement.scope,
            "derived": judgement.derived,
            "tokens_delivered": leg.tokens_delivered,
            "output_tokens": leg.output_tokens,
            "input_tokens": leg.input_tokens,
            "http_status": leg.http_status,
            "finish": leg.finish,
            "foreign_slots": judgement.slots(),
            "unattributed_slots": judgement.slots("unattributed"),
            "no_writer_slots": judgement.slots("no_writer"),
            "donor_tenants": judgement.donor_tenants,
            "rules": list(judgement.rules),
            "exposure_rules": list(judgement.exposure_rules),
        }

    def _range_rows(self, judgement: Judgement) -> list[list[Any]]:
        rows = []
        for part, scope in judgement.ranges:
            donor = part.owner.leg
            rows.append(
                [
                    judgement.leg.uid,
                    self._version,
                    part.page,
                    part.slot_start,
                    part.slot_end,
                    part.token_start,
                    scope,
                    part.owner.via,
                    donor.uid if donor else "",
                    self._response_of(donor) if donor else "",
                    donor.tenant if donor else "",
                    donor.tenant_key if donor else "",
                    donor.rid if donor else "",
                ]
            )
        return rows

    def _write_findings(self, findings: Sequence[Finding], uids: Sequence[str]) -> None:
        found = self._select(_FINDINGS, keys=uids, ids=[finding.finding_id for finding in findings])
        known = {row["finding_id"]: row for row in found}
        now = {finding.finding_id: finding for finding in findings}
        rows = [
            [*asdict(finding).values(), self._version, False]
            for identity, finding in now.items()
            if identity not in known or any(known[identity][name] != value for name, value in asdict(finding).items())
        ]
        rows += [
            [*(row[field.name] for field in fields(Finding)), self._version, True]
            for identity, row in known.items()
            if identity not in now
        ]
        if rows:
            self._store.insert("finding_versions", FINDING_COLUMNS, rows)

    def _select(self, sql: str, keys: Sequence[str], **params: Any) -> list[dict[str, Any]]:
        if not (keys or params.get("ids")):
            return []
        return self._store.rows(sql, {"keys": list(keys), **params})


def write_state(
    store: Queries,
    judged_at: datetime,
    cursor: int,
    watermark: datetime,
    evidence_from: datetime | None,
    rules_text: str,
) -> None:
    """Remember how far a pass went; `cursor` is in unix ns, which a datetime cannot hold.

    Whoever added versions in this pass, answers read them before it counts as ended.
    """
    settle(store, last_end(store) + 1)
    store.insert(
        "detection_runs",
        ("judged_at", "cursor", "watermark", "evidence_from", "rule_set"),
        [[judged_at, cursor, watermark, evidence_from, rules_text]],
    )
