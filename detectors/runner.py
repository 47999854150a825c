"""One pass of detection: from the ingest cursor to verdicts.

The cursor follows the time at which evidence *arrived*, never event time, so evidence that comes hours late is still
judged. A pass judges every request that a new fact belongs to, every request that shares a room with one of those,
every pending response, and every affected or unknown response that a late fact could change.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from detectors.assessment import Assessments
from detectors.boots import load_boots
from detectors.catalogue import Rule, load_rules, rule_set
from detectors.clocks import Clocks
from detectors.findings import Finding, run_rules
from detectors.joins import DECODE_NOT_SEEN
from detectors.judgement import Judgements
from detectors.newest import begin_pass, later_version
from detectors.queries import Queries
from detectors.reconcile import Reconciliation
from detectors.requests import Requests
from detectors.results import Results, Turned, Written, write_state
from detectors.rollup import fill, rollup_row
from detectors.settings import DetectionSettings
from detectors.verdicts import LEG_NOT_SEEN, Judge

BATCH = 10_000
"""Legs that one round of rules looks at, with all that share a room with them: memory, not speed, asks for a limit."""


_ARRIVED = (  # what a pass looks at: all that came since the last one, and was there when this one began
    "received_at > fromUnixTimestamp64Nano({since:Int64}) AND received_at <= fromUnixTimestamp64Nano({until:Int64})"
)
_NEWEST = (
    "SELECT max(toUnixTimestamp64Nano(received_at)) AS newest FROM evidence"
    " WHERE received_at > fromUnixTimestamp64Nano({since:Int64})"
)
_FRESH = f"SELECT uid, min(time) AS first FROM evidence WHERE {_ARRIVED} AND leg_ordinal IS NOT NULL GROUP BY uid"
_CONFIGURED = f"SELECT count() AS facts FROM evidence WHERE {_ARRIVED} AND span = 'pagewitness.node.config'"
_OF_CONFIGURED = (
    "SELECT DISTINCT uid FROM evidence WHERE leg_ordinal IS NOT NULL AND (emitter, boot) IN"
    f" (SELECT emitter, boot FROM evidence WHERE {_ARRIVED} AND span = 'pagewitness.node.config')"
)
_HAS_LEGS = f"NOT has(reasons, '{LEG_NOT_SEEN}')"  # the others are for detectors.reconcile
_UNSURE = f"SELECT response_uid FROM responses WHERE verdict IN ('unknown', 'pending') AND {_HAS_LEGS}"
_CLEAN_SINCE = (
    "SELECT response_uid FROM responses WHERE verdict = 'clean' AND tenant = {tenant:String}"
    " AND tenant_key = {key:String} AND coalesce(ended, started) >= {first:DateTime64(9, 'UTC')}"
)
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
        first_version, version = begin_pass(self._store)
        previous = self._store.rows("SELECT toUnixTimestamp64Nano(cursor) AS cursor FROM detection_state")
        since: int = previous[0]["cursor"] if previous else 0
        until = self._newest(since)  # first: what arrives from now on is for the next pass
        boots = load_boots(self._store)
        clocks = Clocks(self._store, self._settings.clock_error)
        watermark = boots.watermark(now, self._settings.silence, clocks)
        judge = Judge(boots, self._rules, self._settings, now, watermark, clocks)
        silent = boots.silent(now, self._settings.silence)
        heard_again = self._silent is None or bool(self._silent - silent)
        to_judge = self._to_judge(since, until, heard_again)
        rules_text = rule_set(self._rules)
        verdicts: dict[str, str] = {}  # of the responses of this pass
        changed = 0
        turned: list[Turned] = []
        batches = deque(self._batches(to_judge))
        again: set[str] = set()
        while batches:
            uids = batches.popleft()
            requests = Requests(self._store, boots, clocks)
            requests.load(uids)
            # both legs of a request may be on the list, in different batches
            response_uids = [uid for uid in requests.response_uids(uids) if uid not in verdicts or uid in again]
            version = later_version(version)
            results = Results(self._store, version, rules_text, requests.response_of)
            said, written = self._judge_batch(requests, judge, response_uids, results, verdicts)
            verdicts |= said
            changed += written.changed
            turned += written.turned
            if not batches and turned:  # what was clean by them is open again
                again = self._reusers(turned)
                batches.extend(self._batches(sorted(again)))
                turned = []
        reconciliation = Reconciliation(self._store, clocks, watermark, later_version(version))
        changed += reconciliation.run(since, until, first_version)
        oldest = self._store.rows("SELECT min(first_time) AS oldest, count() AS boots FROM boot_activity")
        evidence_from = oldest[0]["oldest"] if oldest[0]["boots"] else None
        write_state(self._store, now, until, watermark, evidence_from, rules_text)
        self._silent = silent  # only now: a pass that failed has re-opened nothing
        said_so = list(verdicts.values())
        pending, violations = said_so.count("pending"), said_so.count("violation")
        return Report(len(said_so), changed, pending, violations, watermark, time.perf_counter() - started)

    def _reusers(self, turned: Sequence[Turned]) -> set[str]:
        """Clean responses that may have reused KV of one that no longer is: of its tenant, and begun after it."""
        found: set[str] = set()
        for tenant, tenant_key in {(one.tenant, one.tenant_key) for one in turned}:
            first = min(one.started for one in turned if (one.tenant, one.tenant_key) == (tenant, tenant_key))
            rows = self._store.rows(_CLEAN_SINCE, {"tenant": tenant, "key": tenant_key, "first": first})
            found |= {row["response_uid"] for row in rows}
        return found

    def _newest(self, since: int) -> int:
        """Time of arrival (unix ns) of the newest evidence there is; `since` where nothing came after it.

        A pass asks for evidence more than once. Bounded by this, all its questions are about the same evidence, and
        nothing that arrives between two of them falls below the next pass's cursor unread.
        """
        (row,) = self._store.rows(_NEWEST, {"since": since})
        newest: int = row["newest"]
        return max(since, newest)

    def _judge_batch(
        self,
        requests: Requests,
        judge: Judge,
        response_uids: Sequence[str],
        results: Results,
        judged_before: Collection[str],
    ) -> tuple[dict[str, str], Written]:
        joins = {uid: requests.joins(uid) for uid in response_uids}
        joins = {uid: found for uid, found in joins.items() if found}
        assessments = Assessments(self._store, requests, judge, joins)
        requests.load_namesakes(joins)
        findings = self._find(requests, judge, assessments, tainted=False)
        assessments.findings = _by_response(findings)
        findings = _once([*findings, *self._find(requests, judge, assessments, tainted=True)])
        by_response = _by_response(findings)
        judgements = Judgements(self._store, requests, judge, assessments)
        judged = [judgements.judge(found, by_response.get(uid, ())) for uid, found in joins.items()]
        results.retire(requests.prefill_uids(joins) - joins.keys() - set(judged_before))
        return {one.leg.uid: one.verdict.verdict for one in judged}, results.write(judged, findings)

    def _find(self, requests: Requests, judge: Judge, assessments: Assessments, *, tainted: bool) -> list[Finding]:
        """Findings over the rollup: of all requests, or of those alone that read `tainted` KV, which is only known
        once it is known who read foreign KV first."""
        rows = [
            rollup_row(
                join,
                assessments.covered(join),
                requests.reused_identities(join),
                judge.boots,
                judge.clocks,
                judge.watermark,
                runs,
            )
            for found in assessments.joins.values()
            for join in found
            if join.why_not != DECODE_NOT_SEEN  # no rule can say anything of it
            and ((runs := assessments.tainted(join) if tainted else ()) or not tainted)
        ]
        if tainted and not rows:
            return []
        fill(self._store, rows)
        return run_rules(self._store, self._rules, self._settings)

    def _to_judge(self, since: int, until: int, heard_again: bool) -> list[str]:
        """Uids of legs whose response may have changed by what arrived in (since, until] (unix ns).

        `heard_again`: an emitter that was silent spoke, so what its silence left unknown is open again.
        """
        arrived = {"since": since, "until": until}
        (configured,) = self._store.rows(_CONFIGURED, arrived)
        fresh = self._store.rows(_FRESH, arrived)
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
            uids |= {row["response_uid"] for row in self._store.rows(_UNSURE)}
            # and what it says late, of a missing hook or of a second setting, can take a clean verdict back
            uids |= {row["uid"] for row in self._store.rows(_OF_CONFIGURED, arrived)}
        if heard_again:
            uids |= {row["response_uid"] for row in self._store.rows(_LEFT_BY_SILENCE)}
        return sorted(uids)

    @staticmethod
    def _batches(uids: Sequence[str]) -> Iterator[Sequence[str]]:
        for start in range(0, len(uids), BATCH):
            yield uids[start : start + BATCH]


def _once(findings: Sequence[Finding]) -> list[Finding]:
    return list({finding.finding_id: finding for finding in findings}.values())


def _by_response(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.response_uid, []).append(finding)
    return found
