"""The verdicts of one batch of responses, each when it is asked for: one can rest on another's, whose KV it reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detectors.coverage import covered_tokens
from detectors.donors import Donors
from detectors.findings import Finding
from detectors.history import PoolHistory
from detectors.joins import DECODE_NOT_SEEN, NO_PREFILL, RESUMED, Join
from detectors.landings import took_early
from detectors.legs import Leg
from detectors.pages import PageLists
from detectors.prefixes import FINE, Prefixes, Reuse, Run
from detectors.queries import Queries
from detectors.requests import Requests
from detectors.verdicts import Judge, Verdict, combine

_UNVOUCHED, _OPEN = frozenset({"resumed_unvouched"}), frozenset({"resumed_pending"})
_STORED = "SELECT verdict FROM responses WHERE response_uid = {uid:String}"


class Assessments:
    """What is to be said of the responses with these `joins` (one a rank, by response uid)."""

    def __init__(self, store: Queries, requests: Requests, judge: Judge, joins: Mapping[str, Sequence[Join]]) -> None:
        self.joins = joins
        self.findings: Mapping[str, Sequence[Finding]] = {}
        self._store = store
        self._requests = requests
        self._judge = judge
        self._histories: dict[tuple[str, str], PoolHistory] = {}
        self._donors: dict[int, Donors] = {}  # by page size
        self._verdicts: dict[str, Verdict] = {}
        self._stored: dict[str, str] = {}
        self.pages = PageLists(store)
        self._prefixes = Prefixes(self.pages, requests, self.donors, self.verdict_of, self._page_size_of)
        # all at once: one query each would be most of the work
        everyone = (leg for each in joins.values() for join in each for leg in (join.decode, join.prefill))
        self._prefixes.load(leg for leg in everyone if leg is not None)

    def verdict(self, uid: str) -> Verdict:
        """The verdict of a response of this batch, over all its ranks. `findings` must be there."""
        if uid not in self._verdicts:
            primary = any(finding.effect == "contamination" for finding in self.findings.get(uid, ()))
            each = []
            for join in self.joins[uid]:
                reuse = self.reuse(join)
                contaminated = primary or bool(self.tainted(join))
                each.append(self._judge.decide(join, contaminated, reuse.gaps, reuse.waiting))
            self._verdicts[uid] = self._every_rank(self.joins[uid], combine(each))
        return self._verdicts[uid]

    def verdict_of(self, uid: str) -> str:
        """The verdict of any response: of this batch, else as it is stored; "" if there is none."""
        if uid in self.joins:
            return self.verdict(uid).verdict
        if uid not in self._stored:
            rows = self._store.rows(_STORED, {"uid": uid})
            self._stored[uid] = rows[0]["verdict"] if rows else ""
        return self._stored[uid]

    def reuse(self, join: Join) -> Reuse:
        """What a request reused of the caches of both nodes, in token positions of its prompt."""
        if join.why_not == DECODE_NOT_SEEN:
            return FINE
        if join.resumed is not None:
            return self._of_resumed(join.decode, join.resumed)
        # what decode had cached for it does not matter where it never read
        mine = self._prefixes.reuse(join.decode) if join.decode.read_tokens is not None else FINE
        if join.prefill is None:
            return mine
        sent = self._prefixes.reuse(join.prefill)
        # all that was computed after the first such position was computed over it
        end = join.decode.prompt_tokens or 0
        carried = tuple(Run(run.start, max(run.end, end), run.source) for run in sent.tainted)
        return Reuse(mine.gaps | sent.gaps, mine.waiting | sent.waiting, mine.tainted + carried)

    def _of_resumed(self, leg: Leg, first: Leg) -> Reuse:
        """What was kept of a leg that was put aside is as good as the verdict of that leg."""
        if leg.read_tokens is None:
            return FINE
        verdict = self.verdict_of(first.uid)
        if verdict == "violation":
            return Reuse(tainted=(Run(0, leg.read_tokens, first.uid),))
        if verdict == "clean":
            return FINE
        return Reuse(gaps=_UNVOUCHED) if verdict == "unknown" else Reuse(waiting=_OPEN)

    def tainted(self, join: Join) -> tuple[Run, ...]:
        """What it read of KV that is foreign, or was computed over foreign KV, by way of a cache."""
        read = join.decode.read_tokens or 0
        runs = self.reuse(join).tainted if read else ()
        return tuple(Run(run.start, min(run.end, read), run.source) for run in runs if run.start < read)

    def page_size(self, join: Join) -> int:
        """Tokens a page on the decode node, as it or its prefill node says; 0 where neither did."""
        sizes = (self._page_size_of(leg) for leg in (join.decode, join.prefill) if leg is not None)
        return next((size for size in sizes if size), 0)

    def _page_size_of(self, leg: Leg) -> int:
        config = self._judge.boots.get(leg.emitter, leg.boot).config
        return config.page_size if config is not None else 0

    def covered(self, join: Join) -> int | None:
        """What the transfer can have covered (see :mod:`detectors.coverage`); None where nothing bounds it."""
        page_size = self.page_size(join)
        return covered_tokens(join.decode, join.prefill, page_size) if page_size else None

    def donors(self, page_size: int) -> Donors:
        """Looks up who wrote a slot."""
        if page_size not in self._donors:
            self._donors[page_size] = Donors(
                self._history, self._requests.join_of, self._requests.load, self._took_early, page_size
            )
        return self._donors[page_size]

    def _took_early(self, leg: Leg) -> bool:
        return took_early(leg, self._judge.boots.get(leg.emitter, leg.boot).config)

    def _history(self, emitter: str, boot: str) -> PoolHistory:
        key = (emitter, boot)
        if key not in self._histories:
            boots = self._judge.boots
            self._histories[key] = PoolHistory(self._store, boots.get(emitter, boot), self._requests.known)
        return self._histories[key]

    def _every_rank(self, joins: Sequence[Join], verdict: Verdict) -> Verdict:
        """`clean` is unknown after all where a rank of either node recorded nothing of this leg, or another request."""
        if verdict.verdict != "clean":
            return verdict
        doubts = set()
        sides: dict[str, list[Leg | None]] = {"decode": [join.decode for join in joins]}
        if any(join.why_not not in (NO_PREFILL, RESUMED) for join in joins):
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
