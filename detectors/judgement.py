"""Judging one response: its verdict, what foreign KV it read and whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from detectors.coverage import covered_tokens
from detectors.donors import Donors, ForeignRange, SlotOwner
from detectors.findings import Finding, label
from detectors.history import PoolHistory
from detectors.joins import DECODE_NOT_SEEN, NO_PREFILL, Join
from detectors.legs import ENDS_HOLD, Leg, expand_runs
from detectors.queries import Queries, Row
from detectors.requests import Requests
from detectors.rollup import recipient_tenant
from detectors.scopes import range_scope, response_scope
from detectors.verdicts import Judge, Verdict, combine
from engine_hooks.conventions import UNATTRIBUTED

MOST_PAGES = 10_000_000
"""More than any pool has; a longer list is not believed."""

UNKNOWN_PAGE = -1
"""Page id of a token position whose page no fact names."""


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
    ranges: tuple[tuple[ForeignRange, str], ...]
    rules: tuple[str, ...]
    exposure_rules: tuple[str, ...]

    def slots(self, scope: str | None = None) -> int:
        """Foreign slots that were read, of one scope or of all."""
        return sum(part.slot_end - part.slot_start for part, said in self.ranges if scope in (None, said))

    @property
    def donor_tenants(self) -> int:
        """How many other tenants' KV was read."""
        owners = (part.owner.leg for part, said in self.ranges if said == "cross_tenant")
        return len({(leg.tenant, leg.tenant_key) for leg in owners if leg is not None})


def pages_of(store: Queries, leg: Leg, page_size: int) -> tuple[int, ...]:
    """A leg's pages in token order from position 0; UNKNOWN_PAGE where only later ones are known.

    From its release, which names every page; while it runs, from the reservation, which starts past the prefix.
    """
    rows: list[Row] = store.rows(
        "SELECT span, pages_start, pages_length, pages_complete, coalesce(prefix_tokens, 0) AS prefix FROM facts"
        " WHERE uid = {uid:String} AND emitter = {emitter:String} AND boot = {boot:String}"
        f" AND (({ENDS_HOLD}) OR transfer_status = 'reserved')"
        " ORDER BY span, seq",
        {"uid": leg.uid, "emitter": leg.emitter, "boot": leg.boot},
    )
    for row in rows:  # page.release sorts before transfer
        pages = expand_runs(row["pages_start"], row["pages_length"])
        if row["span"] == "pagewitness.page.release" and row["pages_complete"]:
            return pages
        if row["span"] == "pagewitness.transfer":
            before: int = row["prefix"] // page_size
            return (UNKNOWN_PAGE,) * before + pages if before <= MOST_PAGES else ()
    return ()


def _same_tenant(one: Leg | None, other: Leg) -> bool:
    return one is not None and (one.tenant, one.tenant_key) == (other.tenant, other.tenant_key)


class Judgements:
    """Judges the responses of one pass."""

    def __init__(self, store: Queries, requests: Requests, judge: Judge) -> None:
        self._store = store
        self._requests = requests
        self._judge = judge
        self._histories: dict[tuple[str, str], PoolHistory] = {}

    def page_size(self, join: Join) -> int:
        """Tokens a page on the decode node, as it or its prefill node says; 0 where neither did."""
        for leg in (join.decode, join.prefill):
            config = self._judge.boots.get(leg.emitter, leg.boot).config if leg else None
            if config is not None:
                return config.page_size
        return 0

    def covered(self, join: Join) -> int | None:
        """What the transfer can have covered (see :mod:`detectors.coverage`); None where nothing bounds it."""
        page_size = self.page_size(join)
        return covered_tokens(join.decode, join.prefill, page_size) if page_size else None

    def judge(self, joins: Sequence[Join], findings: Sequence[Finding], tainted: Mapping[str, bool]) -> Judgement:
        """Judge one response from its joins (one a rank) and the findings on it.

        `tainted` says of other responses whether their verdict is a violation.
        """
        contaminations = [finding for finding in findings if finding.effect == "contamination"]
        verdicts: list[Verdict] = []
        ranges: list[ForeignRange] = []
        for join in joins:
            prefix_reasons = self._prefix_reasons(join, tainted)
            verdicts.append(self._judge.decide(join, bool(contaminations), prefix_reasons))
        if contaminations:  # of the ranks, the one that got least of what it read
            ranges = self._foreign(min(joins, key=lambda join: self.covered(join) or 0), contaminations)
        main = max(joins, key=lambda join: len(join.decode.ordinals))  # the fullest record speaks for all ranks
        tenant, tenant_key = recipient_tenant(main)
        scoped = tuple((part, range_scope(tenant, tenant_key, part.owner)) for part in ranges)
        return Judgement(
            leg=main.decode,
            rid=main.decode.rid or (main.prefill.rid if main.prefill else ""),
            prefill_uid=main.prefill.uid if main.prefill else "",
            tenant=tenant,
            tenant_key=tenant_key,
            model=self._model(main),
            verdict=self._every_rank(joins, combine(verdicts)),
            scope=response_scope([scope for _, scope in scoped]),
            ranges=scoped,
            rules=tuple(sorted({label(finding) for finding in contaminations})),
            exposure_rules=tuple(sorted({label(finding) for finding in findings if finding.effect != "contamination"})),
        )

    def _every_rank(self, joins: Sequence[Join], verdict: Verdict) -> Verdict:
        """`clean` is unknown after all where a rank of either node recorded nothing of this leg, or another request."""
        if verdict.verdict != "clean":
            return verdict
        doubts = set()
        sides: dict[str, list[Leg | None]] = {"decode": [join.decode for join in joins]}
        if any(join.why_not != NO_PREFILL for join in joins):
            sides["prefill"] = [join.prefill for join in joins]
        for role, legs in sides.items():
            emitters = {(leg.emitter, leg.boot) for leg in legs if leg is not None}
            ranks = [config.ranks for each in emitters if (config := self._judge.boots.get(*each).config) is not None]
            if len(emitters) < max(ranks, default=1):
                doubts.add(f"{role}_rank_not_seen")
            seen = [leg for leg in legs if leg is not None]
            if len({(leg.tenant, leg.tenant_key) for leg in seen}) > 1:
                doubts.add("tenant_mismatch")
            if len({(leg.rid, leg.traffic) for leg in seen}) > 1:
                doubts.add(f"{role}_contradicted")
        return Verdict("unknown", tuple(sorted(doubts))) if doubts else verdict

    def _model(self, join: Join) -> str:
        config = self._judge.boots.get(join.decode.emitter, join.decode.boot).config
        return config.model if config else ""

    def _donors(self, page_size: int) -> Donors:
        return Donors(self._history, self._requests.join_of, self._requests.load, page_size)

    def _history(self, emitter: str, boot: str) -> PoolHistory:
        key = (emitter, boot)
        if key not in self._histories:
            self._histories[key] = PoolHistory(self._store, self._judge.boots.get(emitter, boot))
        return self._histories[key]

    def _foreign(self, join: Join, contaminations: Sequence[Finding]) -> list[ForeignRange]:
        """Everything between what the transfer covered and what was read, with its owners."""
        first = min(finding.tokens_from or 0 for finding in contaminations)
        last = max(finding.tokens_to or 0 for finding in contaminations)
        page_size = self.page_size(join)
        pages = pages_of(self._store, join.decode, page_size)
        known = len(pages) * page_size
        ranges = self._donors(page_size).foreign_ranges(join, pages, first, last)
        if known < last:  # no fact names these pages: read all the same, by nobody knows whom written
            start = max(first, known)
            nobody = SlotOwner("unattributed", "stale_page")
            ranges.append(ForeignRange(UNKNOWN_PAGE, 0, last - start, start, nobody))
        return ranges

    def _prefix_reasons(self, join: Join, tainted: Mapping[str, bool]) -> list[str]:
        """Why pages that came out of a prefix cache cannot be vouched for, if they cannot.

        A cached page is fine where its last writer is a leg of the same tenant whose own response is not affected.
        """
        page_size = self.page_size(join)
        if not page_size:
            return []
        if join.why_not == DECODE_NOT_SEEN:
            return []
        reasons = set()
        cached = [(join.decode, join.decode.prefix_tokens or 0)]
        if join.prefill is not None:
            cached.append((join.prefill, join.prefill.cached_tokens or 0))
        for leg, tokens in cached:
            if not tokens or (leg.release_seq is None and leg.ended is None):
                continue  # while it runs, that is what its verdict waits for
            owners = self._owners_of_prefix(leg, pages_of(self._store, leg, page_size), tokens, page_size)
            if leg.tenant == UNATTRIBUTED or any(not _same_tenant(owner.leg, leg) for owner in owners):
                reasons.add("prefix_unattributed")
            if any(owner.leg is not None and tainted.get(self._requests.response_of(owner.leg)) for owner in owners):
                reasons.add("prefix_tainted")
        return sorted(reasons)

    def _owners_of_prefix(self, leg: Leg, pages: Sequence[int], tokens: int, page_size: int) -> list[SlotOwner]:
        donors = self._donors(page_size)
        before = leg.release_seq if leg.release_seq is not None else leg.first_seq
        decode = self._requests.join_of(leg) is not None
        look_up = donors.decode_owner if decode else donors.prefill_owner
        owners = []
        for position in range(tokens):
            index, slot = divmod(position, page_size)
            if index >= len(pages) or pages[index] == UNKNOWN_PAGE:
                owners.append(SlotOwner("unattributed", "stale_page"))
                break
            owners.append(look_up(leg, pages[index], slot, before, "stale_page", shared=True))
        return owners
