"""What a pass writes: only what changed, each as a new version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from detectors.findings import Finding
from detectors.judgement import Judgement
from detectors.legs import Leg
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
        return written

    def _write_responses(self, judgements: Sequence[Judgement], uids: Sequence[str]) -> Written:
        known = {row["response_uid"]: row for row in self._select("responses", "response_uid", uids)}
        stored_ranges: dict[str, set[tuple[Any, ...]]] = {}
        for row in self._select("foreign_ranges", "response_uid", uids):
            key = tuple(row[name] for name in RANGE_COLUMNS if name not in ("response_uid", "version"))
            stored_ranges.setdefault(row["response_uid"], set()).add(key)
        rows, ranges, turned = [], [], []
        for judgement in judgements:
            row = self._response_row(judgement)
            mine = self._range_rows(judgement)
            before = known.get(judgement.leg.uid)
            same = before is not None and all(
                before[name] == row[name] for name in RESPONSE_COLUMNS if name != "version"
            )
            if same and stored_ranges.get(judgement.leg.uid, set()) == {tuple(part[2:]) for part in mine}:
                continue
            if before is not None and before["verdict"] == "clean" != row["verdict"]:
                turned.append(Turned(row["tenant"], row["tenant_key"], row["started"]))
            rows.append([row[name] for name in RESPONSE_COLUMNS])
            ranges.extend(mine)
        # ranges first: the view shows those of the newest response row
        if ranges:
            self._store.insert("foreign_range_versions", RANGE_COLUMNS, ranges)
        if rows:
            self._store.insert("response_versions", RESPONSE_COLUMNS, rows)
        return Written(len(rows), turned)

    def retire(self, prefill_uids: Collection[str]) -> None:
        """Take back what stood under these prefill legs before their decode legs were seen."""
        stood = self._select("responses", "response_uid", sorted(prefill_uids))
        rows = [
            [(row | {"version": self._version, "verdict": RETIRED})[name] for name in RESPONSE_COLUMNS] for row in stood
        ]
        if rows:
            self._store.insert("response_versions", RESPONSE_COLUMNS, rows)

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
        known = {row["finding_id"]: row for row in self._select("findings", "response_uid", uids)}
        known |= {
            row["finding_id"]: row for row in self._select("findings", "finding_id", [f.finding_id for f in findings])
        }
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

    def _select(self, view: str, column: str, keys: Sequence[str]) -> list[dict[str, Any]]:
        if not keys:
            return []
        return self._store.rows(f"SELECT * FROM {view} WHERE {column} IN {{keys:Array(String)}}", {"keys": list(keys)})


def write_state(
    store: Queries,
    judged_at: datetime,
    cursor: int,
    watermark: datetime,
    evidence_from: datetime | None,
    rules_text: str,
) -> None:
    """Remember how far a pass went; `cursor` is in unix ns, which a datetime cannot hold."""
    store.insert(
        "detection_runs",
        ("judged_at", "cursor", "watermark", "evidence_from", "rule_set"),
        [[judged_at, cursor, watermark, evidence_from, rules_text]],
    )
