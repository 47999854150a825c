"""The history of a pool's pages: which legs held a page before a given fact, newest first.

Read in windows of the emitter's seq that reach further back only while a slot is still unresolved, so that a look-up
after weeks of uptime costs what it must and no more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from detectors.boots import NO_SEQ_ABOVE, Boot
from detectors.claims import NEVER, Claim, PageClaims
from detectors.legs import Leg, expand_runs, legs_by_uid
from detectors.queries import Queries

RELEASES = frozenset({"page.release", "page.release.shared"})
"""The facts without which a pool has no history."""

FIRST_WINDOW = 4096
"""Facts that the first look back covers; each further one doubles."""

KnownLegs = Callable[[str], Sequence[Leg]]
"""The legs with this uid, as far as they were read already."""

_COPIED = "span IN ('pagewitness.page.release', 'pagewitness.page.acquire', 'pagewitness.page.free')"
"""SQL: facts whose page ids may come from a device. They come in the order of what they tell of."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A leg that held the page, at which position of its page list, and the token positions that it wrote itself."""

    leg: Leg
    release_seq: int
    index: int
    written_start: int
    written_end: int

    def wrote(self, page_size: int) -> tuple[int, int]:
        """Slots [start, end) of the page that the leg's own forwards wrote; empty if end is not past start."""
        begin = self.index * page_size
        return max(self.written_start - begin, 0), min(self.written_end - begin, page_size)


class PoolHistory:
    """Holders of the pages of one pool: one emitter boot, component `kv`."""

    def __init__(
        self, store: Queries, boot: Boot, known: KnownLegs = lambda uid: (), first_window: int = FIRST_WINDOW
    ) -> None:
        self._store = store
        self._known = known
        self._boot = boot
        self._holders: dict[int, list[Holder]] = defaultdict(list)  # page -> holders, newest first
        self._holes = boot.drop_holes()  # seqs at or below which nothing is certain
        self._sorted_holes: list[int] | None = None
        self._claims: dict[int, PageClaims] = defaultdict(PageClaims)
        if boot.config is not None and RELEASES & set(boot.config.hooks_missing):
            self._holes.append(NO_SEQ_ABOVE)  # legs may have held pages and never said so
        self._low: int | None = None  # seqs in [low, high) are loaded
        self._high = 0
        self._window = first_window
        self._settled: dict[int, bool] = {}  # seq -> whether no release from before it is still to come
        self._settled_ranges: list[tuple[int, int]] = []  # (from, to): so it is for each seq in here

    def holders(self, page: int, before_seq: int, leg: Leg, *, shared: bool = False) -> Iterator[Holder | None]:
        """Legs that held the page and gave it up before this seq, newest first, for a leg that held it then.

        Yields None, and ends, where the evidence has a hole: whoever comes before it may not have been the last. The
        same while a release from before this seq may be still to come, and where another leg still held the page, and
        may have written it: any other, or, for a page that is `shared` through a prefix cache, one of another tenant.
        Ends without None when the boot's first fact was reached.
        """
        if not self._is_settled(before_seq):
            yield None
            return
        self._reach(before_seq)
        ceiling = before_seq
        while True:
            low = self._low
            assert low is not None
            hole = self._last_hole(before_seq)
            claims = self._claims.get(page)
            if claims is not None and claims.rivals(before_seq, leg, shared=shared):
                yield None
                return
            found = self._holders.get(page, [])
            for holder in found[bisect_right(found, -ceiling, key=lambda one: -one.release_seq) :]:
                if holder.release_seq <= hole:
                    break
                yield holder
            if hole >= low:
                yield None
                return
            if low <= 1:
                return
            ceiling = low
            self._widen()

    def _last_hole(self, before_seq: int) -> int:
        """The highest seq below this one at or below which nothing is certain; this one where nothing ever is; or 0."""
        if self._sorted_holes is None:
            self._sorted_holes = sorted(self._holes)
        holes = self._sorted_holes
        if holes and holes[-1] == NO_SEQ_ABOVE:
            return before_seq
        place = bisect_left(holes, before_seq)
        return holes[place - 1] if place else 0

    def _is_settled(self, before_seq: int) -> bool:
        """Whether every release from before this seq is here: a later one is, and no fact is missing up to it.

        On a device a release is recorded once the ids of its pages have arrived, in the order of the releases. The leg
        that asks gives its own pages up later than this seq, so it is only while that has not come that this says no.
        """
        known = self._settled.get(before_seq)
        if known is None:
            ranges = self._settled_ranges
            known = any(start <= before_seq <= end for start, end in ranges) or self._settles_later(before_seq)
            self._settled[before_seq] = known
        return known

    def _settles_later(self, before_seq: int) -> bool:
        window = FIRST_WINDOW
        while True:
            rows = self._store.rows(
                f"SELECT seq, if({_COPIED}, coalesce(after_seq, seq), 0) AS at FROM facts"
                " WHERE emitter = {emitter:String} AND boot = {boot:String}"
                " AND seq >= {start:Int64} AND seq < {end:Int64} AND contents = 1 ORDER BY seq",
                self._seqs(before_seq, before_seq + window),
            )
            together = [row["at"] for place, row in enumerate(rows) if row["seq"] == before_seq + place]
            end = max(together, default=0)
            if end >= before_seq:
                self._settled_ranges.append((before_seq, end))
                return True
            if len(together) < window:
                return False
            window *= 2

    def _seqs(self, start: int, end: int) -> dict[str, object]:
        """Query parameters for the facts of this boot with seqs in [start, end)."""
        return {"emitter": self._boot.emitter, "boot": self._boot.boot, "start": start, "end": end}

    def _reach(self, before_seq: int) -> None:
        """Make sure that the facts just below this seq are loaded."""
        if self._low is None:
            self._low = self._high = before_seq
        if before_seq > self._high:
            self._load(self._high, before_seq)
            self._high = before_seq
        if before_seq <= self._low:
            self._widen()
            self._reach(before_seq)

    def _widen(self) -> None:
        """Load one more window below what is loaded. The boot's seqs start at 1."""
        assert self._low is not None
        if self._low <= 1:
            return
        start = max(1, self._low - self._window)
        self._window *= 2
        self._load(start, self._low)
        self._low = start

    def _load(self, start: int, end: int) -> None:
        own = "emitter = {emitter:String} AND boot = {boot:String}"
        where = f"{own} AND seq >= {{start:Int64}} AND seq < {{end:Int64}}"
        params = self._seqs(start, end)
        (count,) = self._store.rows(
            f"SELECT count() AS facts, countIf(contents > 1) AS bad FROM facts WHERE {where}", params
        )
        if count["facts"] != end - start or count["bad"]:
            rows = self._store.rows(f"SELECT seq FROM facts WHERE {where} AND contents = 1", params)
            self._holes.extend(set(range(start, end)) - {row["seq"] for row in rows})
        releases = self._store.rows(
            "SELECT coalesce(after_seq, seq) AS at, uid, pages_start, pages_length, pages_complete, written_start,"
            " written_end FROM facts"
            f" WHERE {own} AND seq >= {{start:Int64}} AND span = 'pagewitness.page.release' AND component IN ('', 'kv')"
            # on a device the fact comes later than what it tells of
            " AND coalesce(after_seq, seq) >= {start:Int64} AND coalesce(after_seq, seq) < {end:Int64}",
            params,
        )
        present = self._store.rows(f"SELECT DISTINCT uid FROM facts WHERE {where} AND leg_ordinal IS NOT NULL", params)
        legs = self._legs({row["uid"] for row in (*releases, *present)})
        self._find_silent(legs.values())
        self._load_claims(where, params, legs)
        touched: set[int] = set()
        for row in releases:
            if not row["pages_complete"]:
                self._holes.append(row["at"])
            leg, at, start, end = legs[row["uid"]], row["at"], row["written_start"], row["written_end"]
            if leg.resumes:  # what it loaded, it did not compute
                start = max(start, leg.loaded_tokens or 0)
            first = self._found_there(leg, start)
            pages = expand_runs(row["pages_start"], row["pages_length"])
            touched.update(pages[first:])
            for index in range(first, len(pages)):
                self._holders[pages[index]].append(Holder(leg, at, index, start, end))
        for page in touched:
            self._holders[page].sort(key=lambda holder: -holder.release_seq)
        self._sorted_holes = None

    def _found_there(self, leg: Leg, written_start: int) -> int:
        """So many leading pages of a leg's list it found filled and left alone: it says nothing about them.

        Those alone of which every fact says so. A page that many requests share has many such holders, and a look-up
        must not go through them all.
        """
        config = self._boot.config
        if config is None:
            return 0
        tokens = min(leg.cached_tokens or 0, written_start)
        if config.role != "prefill":  # what was not sent to it, as both nodes agreed
            tokens = min(tokens, leg.prefix_tokens or 0)
        return tokens // config.page_size

    def _load_claims(self, where: str, params: dict[str, object], legs: Mapping[str, Leg]) -> None:
        rows = self._store.rows(
            f"SELECT seq, uid, pages_start, pages_length FROM facts WHERE {where}"
            " AND transfer_status IN ('reserved', 'queued')",
            params,
        )
        for row in rows:
            leg = legs[row["uid"]]
            claim = Claim(row["seq"], leg, NEVER if leg.release_seq is None else leg.release_seq)
            for page in expand_runs(row["pages_start"], row["pages_length"]):
                self._claims[page].add(claim)

    def _legs(self, uids: set[str]) -> dict[str, Leg]:
        mine = (self._boot.emitter, self._boot.boot)
        known = (leg for uid in uids for leg in self._known(uid))
        legs = {leg.uid: leg for leg in known if (leg.emitter, leg.boot) == mine}
        found = legs_by_uid(self._store, sorted(uids - legs.keys()))
        return legs | {leg.uid: leg for leg in found if (leg.emitter, leg.boot) == mine}

    def _find_silent(self, legs: Iterable[Leg]) -> None:
        """A leg that had pages and will not say which any more: its hook failed. Nobody knows when they went on."""
        for leg in legs:
            had_pages = leg.reserved_pages is not None or leg.chunks or leg.read_tokens is not None
            holed = len(leg.ordinals) != leg.ordinals[-1]
            if had_pages and not leg.released and (holed or leg.ended is not None):
                self._holes.append(NO_SEQ_ABOVE)
