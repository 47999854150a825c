"""Judging one response: its verdict, what foreign KV it read and whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detectors.assessment import Assessments
from detectors.donors import ForeignRange, SlotOwner
from detectors.findings import Finding, label
from detectors.joins import Join
from detectors.legs import Leg, legs_by_uid
from detectors.pages import UNKNOWN_PAGE
from detectors.queries import Queries
from detectors.requests import Requests
from detectors.rollup import recipient_tenant
from detectors.scopes import range_scope, response_scope
from detectors.verdicts import Judge, Verdict

DERIVED = "derived"
"""Name of the rule whose findings are affected by way of a cache only, and the way itself."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of one response. `ranges` pairs each foreign range that it read with its scope."""

    leg: Leg
    rid: str
    prefill_uid: str
    tenant: str
    tenant_key: str
    model: str
    verdict: Verdict
    scope: str
    derived: bool
    ranges: tuple[tuple[ForeignRange, str], ...]
    rules: tuple[str, ...]
    exposure_rules: tuple[str, ...]

    def slots(self, scope: str | None = None) -> int:
        """Foreign slots that were read, of one scope or of all. A derived range has one entry for each donor."""
        parts = {
            (part.page, part.slot_start, part.slot_end, part.token_start)
            for part, said in self.ranges
            if scope in (None, said)
        }
        return sum(end - start for _, start, end, _ in parts)

    @property
    def donor_tenants(self) -> int:
        """How many other tenants' KV was read."""
        owners = (part.owner.leg for part, said in self.ranges if said == "cross_tenant")
        return len({(leg.tenant, leg.tenant_key) for leg in owners if leg is not None})


class Judgements:
    """Judges the responses of one batch."""

    def __init__(self, store: Queries, requests: Requests, judge: Judge, assessments: Assessments) -> None:
        self._store = store
        self._requests = requests
        self._judge = judge
        self._assessments = assessments
        self._read: dict[str, list[ForeignRange]] = {}  # by response: what it read, itself

    def judge(self, joins: Sequence[Join], findings: Sequence[Finding]) -> Judgement:
        """Judge one response from its joins (one a rank) and the findings on it."""
        contaminations = [finding for finding in findings if finding.effect == "contamination"]
        primary = [finding for finding in contaminations if finding.rule != DERIVED]
        main = max(joins, key=lambda join: len(join.decode.ordinals))  # the fullest record speaks for all ranks
        ranges: list[ForeignRange] = []
        if primary:
            ranges = self._foreign(joins, primary)
        elif contaminations:
            ranges = self._inherited(max(joins, key=lambda join: len(self._assessments.tainted(join))))
        tenant, tenant_key = recipient_tenant(main)
        scoped = tuple((part, range_scope(tenant, tenant_key, part.owner)) for part in ranges)
        return Judgement(
            leg=main.decode,
            rid=main.decode.rid or (main.prefill.rid if main.prefill else ""),
            prefill_uid=main.prefill.uid if main.prefill else "",
            tenant=tenant,
            tenant_key=tenant_key,
            model=self._model(main),
            verdict=self._assessments.verdict(main.decode.uid),
            scope=response_scope([scope for _, scope in scoped]),
            derived=bool(contaminations) and not primary,
            ranges=scoped,
            rules=tuple(sorted({label(finding) for finding in contaminations})),
            exposure_rules=tuple(sorted({label(finding) for finding in findings if finding.effect != "contamination"})),
        )

    def _model(self, join: Join) -> str:
        config = self._judge.boots.get(join.decode.emitter, join.decode.boot).config
        return config.model if config else ""

    def _foreign(self, joins: Sequence[Join], contaminations: Sequence[Finding]) -> list[ForeignRange]:
        """Everything between what the transfer covered and what was read, with its owners: of the ranks, on the one
        that got least of it. Kept, because those who reused its pages are asked for the same."""
        join = min(joins, key=lambda join: self._assessments.covered(join) or 0)
        uid = join.decode.uid
        if uid not in self._read:
            self._read[uid] = self._look_up(join, contaminations)
        return self._read[uid]

    def _look_up(self, join: Join, contaminations: Sequence[Finding]) -> list[ForeignRange]:
        first = min(finding.tokens_from or 0 for finding in contaminations)
        last = max(finding.tokens_to or 0 for finding in contaminations)
        page_size = self._assessments.page_size(join)
        pages = self._assessments.pages.of(join.decode, page_size)
        known = len(pages) * page_size
        ranges = self._assessments.donors(page_size).foreign_ranges(join, pages, first, last)
        if known < last:  # no fact names these pages: read all the same, by nobody knows whom written
            start = max(first, known)
            nobody = SlotOwner("unattributed", "stale_page")
            ranges.append(ForeignRange(UNKNOWN_PAGE, 0, last - start, start, nobody))
        return ranges

    def _inherited(self, join: Join) -> list[ForeignRange]:
        """What it read by way of a cache, once for each owner of what the first reader had read. The pages are the
        first reader's, and no longer what they were: so none is named."""
        return [
            ForeignRange(UNKNOWN_PAGE, 0, run.end - run.start, run.start, owner)
            for run in self._assessments.tainted(join)
            for owner in self._owners_read_by(run.source, set())
        ]

    def _owners_read_by(self, uid: str, seen: set[str]) -> list[SlotOwner]:
        """Each owner of the foreign KV that a response had read, itself by way of a cache or not."""
        if uid in seen:
            return []
        seen.add(uid)
        if uid not in self._assessments.joins:
            return self._stored_owners(uid)
        joins = self._assessments.joins[uid]
        primary = [f for f in self._assessments.findings.get(uid, ()) if f.effect == "contamination"]
        if primary:
            ranges = self._foreign(joins, primary)
            owners = [part.owner for part in ranges]
        else:
            runs = [run for join in joins for run in self._assessments.tainted(join)]
            owners = [owner for run in runs for owner in self._owners_read_by(run.source, seen)]
        return _once([SlotOwner(owner.verdict, DERIVED, owner.leg) for owner in owners])

    def _stored_owners(self, uid: str) -> list[SlotOwner]:
        rows = self._store.rows(
            "SELECT DISTINCT donor_uid, scope FROM foreign_ranges WHERE response_uid = {uid:String}"
            " ORDER BY donor_uid, scope",
            {"uid": uid},
        )
        legs = {
            leg.uid: leg for leg in legs_by_uid(self._store, [row["donor_uid"] for row in rows if row["donor_uid"]])
        }
        owners = []
        for row in rows:
            leg = legs.get(row["donor_uid"])
            verdict = "owned" if leg else "no_writer" if row["scope"] == "no_writer" else "unattributed"
            owners.append(SlotOwner(verdict, DERIVED, leg))
        return _once(owners)


def _once(owners: Sequence[SlotOwner]) -> list[SlotOwner]:
    return list({(owner.verdict, owner.leg.uid if owner.leg else ""): owner for owner in owners}.values())
