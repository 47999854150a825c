"""One pass of detection: from the ingest cursor to verdicts.

The cursor follows the time at which evidence *arrived*, never event time, so evidence that comes hours late is still
judged. A pass judges every request that a new fact belongs to, every request that shares a room with one of those,
every pending response, and every affected or unknown response that a late fact could change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from detectors.boots import load_boots
from detectors.catalogue import Rule, load_rules, rule_set
from detectors.clocks import Clocks
from detectors.findings import Finding, run_rules
from detectors.joins import DECODE_NOT_SEEN
from detectors.judgement import Judgements
from detectors.queries import Queries
from detectors.reconcile import Reconciliation, fresh_deliveries
from detectors.requests import Requests
from detectors.results import Results, write_state
from detectors.rollup import fill, rollup_row
from detectors.settings import DetectionSettings
from detectors.verdicts import LEG_NOT_SEEN, Judge

BATCH = 10_000
"""Legs that one round of rules looks at, with all that share a room with them: memory, not speed, asks for a limit."""


_CONFIGURED = (
    "SELECT count() AS facts, max(toUnixTimestamp64Nano(received_at)) AS arrived FROM evidence"
    " WHERE received_at > fromUnixTimestamp64Nano({since:Int64}) AND span = 'pagewitness.node.config'"
)
_HAS_LEGS = f"NOT has(reasons, '{LEG_NOT_SEEN}')"  # the others are for detectors.reconcile
_UNSURE = f"SELECT response_uid FROM responses WHERE verdict IN ('unknown', 'pending') AND {_HAS_LEGS}"
_LEFT_BY_SILENCE = (
    "SELECT response_uid FROM responses WHERE verdict = 'unknown'"
    " AND hasAny(reasons, ['decode_emitter_silent', 'prefill_emitter_silent'])"
)


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass did."""

    judged: int
    changed: int
    pending: int
    violations: int
    watermark: datetime
    seconds: float


class Runner:
    """Runs passes over one store. Keep one per service: two at a time would write the same rollup."""

    def __init__(
        self,
        store: Queries,
        settings: DetectionSettings | None = None,
        rules: Sequence[Rule] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or DetectionSettings()
        self._rules = tuple(rules) if rules is not None else load_rules()
        self._now = now or (lambda: datetime.now(UTC))
        self._silent: set[tuple[str, str]] | None = None  # boots that were silent at the last pass; None: not known

    def run_once(self) -> Report:
        """Judge what changed since the last pass. Safe to repeat: the same evidence gives the same answers."""
        started = time.perf_counter()
        now = self._now()
        previous = self._store.rows("SELECT toUnixTimestamp64Nano(cursor) AS cursor FROM detection_state")
        since: int = previous[0]["cursor"] if previous else 0
        boots = load_boots(self._store)
        clocks = Clocks(self._store, self._settings.clock_error)
        watermark = boots.watermark(now, self._settings.silence, clocks)
        judge = Judge(boots, self._rules, self._settings, now, watermark, clocks)
        silent = boots.silent(now, self._settings.silence)
        heard_again = self._silent is None or bool(self._silent - silent)
        deliveries = fresh_deliveries(self._store, since)  # first: what arrives now is for the next pass
        to_judge, cursor = self._to_judge(since, heard_again)
        rules_text = rule_set(self._rules)
        verdicts: dict[str, str] = {}  # of the responses of this pass
        changed = 0
        for uids in self._batches(to_judge):
            requests = Requests(self._store, boots, clocks)
            requests.load(uids)
            # both legs of a request may be on the list, in different batches
            response_uids = [uid for uid in requests.response_uids(uids) if uid not in verdicts]
            results = Results(self._store, time.time_ns(), rules_text, requests.response_of)
            said, differing = self._judge_batch(requests, judge, response_uids, results)
            verdicts |= said
            changed += differing
        cursor = max([cursor, *(one.row["arrived"] for one in deliveries)])
        reconciliation = Reconciliation(self._store, clocks, watermark, time.time_ns())
        changed += reconciliation.run(deliveries, since, cursor)
        oldest = self._store.rows("SELECT min(first_time) AS oldest, count() AS boots FROM boot_activity")
        evidence_from = oldest[0]["oldest"] if oldest[0]["boots"] else None
        write_state(self._store, now, cursor, watermark, evidence_from, rules_text)
        self._silent = silent  # only now: a pass that failed has re-opened nothing
        said_so = list(verdicts.values())
        pending, violations = said_so.count("pending"), said_so.count("violation")
        return Report(len(said_so), changed, pending, violations, watermark, time.perf_counter() - started)

    def _judge_batch(
        self, requests: Requests, judge: Judge, response_uids: Sequence[str], results: Results
    ) -> tuple[dict[str, str], int]:
        judgements = Judgements(self._store, requests, judge)
        joins = {uid: requests.joins(uid) for uid in response_uids}
        joins = {uid: found for uid, found in joins.items() if found}
        requests.load_namesakes(joins)
        rows = [
            rollup_row(
                join,
                judgements.covered(join),
                requests.reused_identities(join),
                judge.boots,
                judge.clocks,
                judge.watermark,
            )
            for found in joins.values()
            for join in found
            if join.why_not != DECODE_NOT_SEEN  # no rule can say anything of it
        ]
        fill(self._store, rows)
        findings = run_rules(self._store, self._rules, self._settings)
        by_response: dict[str, list[Finding]] = {}
        for finding in findings:
            by_response.setdefault(finding.response_uid, []).append(finding)
        tainted = {uid: any(f.effect == "contamination" for f in by_response.get(uid, ())) for uid in joins}
        for row in self._store.rows("SELECT response_uid FROM responses WHERE verdict = 'violation'"):
            tainted.setdefault(row["response_uid"], True)
        judged = [judgements.judge(found, by_response.get(uid, ()), tainted) for uid, found in joins.items()]
        results.retire(requests.prefill_uids(joins))
        return {one.leg.uid: one.verdict.verdict for one in judged}, results.write(judged, findings)

    def _to_judge(self, since: int, heard_again: bool) -> tuple[list[str], int]:
        """Uids of legs whose response may have changed, and the new cursor (unix ns).

        `heard_again`: an emitter that was silent spoke, so what its silence left unknown is open again.
        """
        (configured,) = self._store.rows(_CONFIGURED, {"since": since})  # first: what arrives now is for the next pass
        fresh = self._store.rows(
            "SELECT uid, min(time) AS first, max(toUnixTimestamp64Nano(received_at)) AS arrived FROM evidence"
            " WHERE received_at > fromUnixTimestamp64Nano({since:Int64}) AND leg_ordinal IS NOT NULL GROUP BY uid",
            {"since": since},
        )
        cursor = max([since, *(row["arrived"] for row in fresh)])
        uids = {row["uid"] for row in fresh}
        uids |= {
            row["response_uid"]
            for row in self._store.rows(f"SELECT response_uid FROM responses WHERE verdict = 'pending' AND {_HAS_LEGS}")
        }
        if fresh:
            oldest = min(row["first"] for row in fresh)
            reopened = self._store.rows(
                f"SELECT response_uid FROM responses WHERE verdict IN ('violation', 'unknown') AND {_HAS_LEGS}"
                " AND coalesce(ended, started) >= {oldest:DateTime64(9, 'UTC')}",
                {"oldest": oldest},
            )
            uids |= {row["response_uid"] for row in reopened}
        if configured["facts"]:  # what a node is may be all that was missing
            cursor = max(cursor, configured["arrived"])
            uids |= {row["response_uid"] for row in self._store.rows(_UNSURE)}
        if heard_again:
            uids |= {row["response_uid"] for row in self._store.rows(_LEFT_BY_SILENCE)}
        return sorted(uids), cursor

    @staticmethod
    def _batches(uids: Sequence[str]) -> Iterator[Sequence[str]]:
        for start in range(0, len(uids), BATCH):
            yield uids[start : start + BATCH]
