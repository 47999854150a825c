"""Cached pages that a leg reused: whether their KV can be vouched for, as its tenant's own and computed over nothing
foreign.

A cached slot is fine where an attempt of the same tenant computed it, and had itself read nothing but fine KV. What a
prefill node computed depends on the cached pages that it computed over. What a decode step computed depends on all that
its response had read, and is as good as the verdict of that response. A slot of the prompt came with a transfer, and is
as good as what the prefill leg computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from detectors.donors import Donors, SlotOwner
from detectors.history import Holder
from detectors.legs import Leg
from detectors.pages import UNKNOWN_PAGE, PageLists
from detectors.requests import Requests
from engine_hooks.conventions import UNATTRIBUTED

DEEPEST = 150
"""So many attempts that each computed over the last one's pages are followed back; beyond, nobody vouches."""

OPEN, UNSURE, UNATTRIBUTED_PREFIX = "prefix_pending", "prefix_unvouched", "prefix_unattributed"


@dataclass(frozen=True, slots=True)
class Run:
    """Token positions [start, end) of a leg that were computed over foreign KV, or are it; `source` is the uid of the
    response that had read the foreign KV first."""

    start: int
    end: int
    source: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """What is to be said of the cached pages that a leg reused. `gaps` and `waiting` are keys of REASONS."""

    gaps: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    tainted: tuple[Run, ...] = ()


FINE = Reuse()
_NOBODY = Reuse(gaps=frozenset({UNSURE}))


class Prefixes:
    """Looks cached pages up. One object serves one batch: what was found of a leg is kept.

    `verdict_of` gives the verdict of a response by its uid, "" while there is none; `tainted_of` the runs of a response
    that are in this batch; `page_size_of` the tokens a page of a leg's node, 0 where nobody said.
    """

    def __init__(
        self,
        pages: PageLists,
        requests: Requests,
        donors_for: Callable[[int], Donors],
        verdict_of: Callable[[str], str],
        page_size_of: Callable[[Leg], int],
    ) -> None:
        self._pages = pages
        self._requests = requests
        self._donors_for = donors_for
        self._verdict_of = verdict_of
        self._page_size_of = page_size_of
        self._reuses: dict[tuple[str, str, str], Reuse] = {}
        self._depth = 0

    def reuse(self, leg: Leg) -> Reuse:
        """What the leg reused of its own node's cache. A leg that still runs waits for its end all the same."""
        tokens = self._cached(leg)
        size = self._page_size_of(leg)
        if not tokens or not size or (leg.release_seq is None and leg.ended is None):
            return FINE
        key = leg.identity
        if key not in self._reuses:
            self._reuses[key] = _NOBODY  # should it ever lead back to itself
            if self._depth < DEEPEST:
                self._depth += 1
                self._reuses[key] = self._look_up(leg, tokens, size)
                self._depth -= 1
        return self._reuses[key]

    def load(self, legs: Iterable[Leg]) -> None:
        """Get ready what is needed of the legs among these that reused something."""
        self._pages.load(leg for leg in legs if self._cached(leg))

    def _cached(self, leg: Leg) -> int:
        decode = self._requests.join_of(leg) is not None
        return (leg.prefix_tokens if decode else leg.cached_tokens) or 0

    def _look_up(self, leg: Leg, tokens: int, size: int) -> Reuse:
        gaps: set[str] = {UNATTRIBUTED_PREFIX} if leg.tenant == UNATTRIBUTED else set()
        waiting: set[str] = set()
        tainted: list[Run] = []
        for start, end, owner, publisher in self._owners(leg, tokens, size):
            said = self._standing(leg, start, owner, publisher)
            gaps |= said.gaps
            waiting |= said.waiting
            sources = {run.source for run in said.tainted}
            tainted += [Run(start, end, source) for source in sorted(sources)]
        return Reuse(frozenset(gaps), frozenset(waiting), _merged(tainted))

    def _standing(self, leg: Leg, position: int, owner: SlotOwner, publisher: Leg | None) -> Reuse:
        """How good one cached slot is, by who wrote it and which attempt left its page in the cache."""
        writer = owner.leg
        own = writer is not None and (writer.tenant, writer.tenant_key) == (leg.tenant, leg.tenant_key)
        if publisher is not None and (writer is None or publisher.uid != writer.uid):
            # what an affected response read and then published is still what it was
            said = self._of_response(publisher.uid) if self._requests.join_of(publisher) is not None else FINE
            if own and (said.tainted or said.gaps):
                return _NOBODY  # its tenant's own: of the same words or of others, nobody can say
            if said.tainted or said.waiting:
                return said
        if writer is None or not own:
            return Reuse(gaps=frozenset({UNATTRIBUTED_PREFIX}))
        join = self._requests.join_of(writer)
        if join is None:
            return self._of_prefill(writer)
        while join is not None and join.resumed is not None:  # what it loaded of a prompt, the first leg had been sent
            join = self._requests.join_of(join.resumed)
        prompt = join.decode.prompt_tokens if join is not None else None
        if join is None or prompt is None or position >= prompt:
            return self._of_response(writer.uid)
        return self._of_prefill(join.prefill) if join.prefill is not None else _NOBODY

    def _of_prefill(self, leg: Leg) -> Reuse:
        return self.reuse(leg) if leg.sends_known else _NOBODY

    def _of_response(self, uid: str) -> Reuse:
        verdict = self._verdict_of(uid)
        if verdict == "violation":
            return Reuse(tainted=(Run(0, 0, uid),))
        if verdict == "clean":
            return FINE
        return _NOBODY if verdict == "unknown" else Reuse(waiting=frozenset({OPEN}))

    def _owners(self, leg: Leg, tokens: int, size: int) -> Iterator[tuple[int, int, SlotOwner, Leg | None]]:
        """(start, end, owner, who held the page last) of the cached token positions, a page or a slot at a time."""
        pages = self._pages.of(leg, size)
        before = leg.release_seq if leg.release_seq is not None else leg.first_seq
        donors = self._donors_for(size)
        look_up = donors.decode_owners if self._requests.join_of(leg) is not None else donors.prefill_owners
        for begin in range(0, tokens, size):
            index = begin // size
            if index >= len(pages) or pages[index] == UNKNOWN_PAGE:
                yield begin, tokens, SlotOwner("unattributed", "stale_page"), None
                return
            page = pages[index]
            publisher = _publisher(donors.holders(leg, page, before), leg, index, size)
            part = (0, min(size, tokens - begin))
            for start, end, owner in look_up(leg, page, part, before, "stale_page", shared=True):
                # a page can hold the end of a prompt and what was computed after it
                prompt = (owner.leg.prompt_tokens or 0) - begin if owner.leg is not None else 0
                for first, last in pairwise(sorted({start, end, max(start, min(end, prompt))})):
                    yield begin + first, begin + last, owner, publisher


def _publisher(holders: Iterator[Holder | None], leg: Leg, index: int, size: int) -> Leg | None:
    """The attempt that brought the page into the cache: the last one that had not found it there itself."""
    for holder in holders:
        if holder is None:
            return None
        if holder.leg.uid != leg.uid and holder.index >= (holder.leg.cached_tokens or 0) // size:
            return holder.leg
    return None


def _merged(runs: Sequence[Run]) -> tuple[Run, ...]:
    merged: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.source, run.start)):
        if merged and (merged[-1].source, merged[-1].end) == (run.source, run.start):
            merged[-1] = Run(merged[-1].start, run.end, run.source)
        else:
            merged.append(run)
    return tuple(merged)
