"""Which legs held a page at a given fact, as far as they named it as theirs: by reserving it or by sending it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from detectors.legs import Leg

NEVER = 1 << 63
"""The seq at which a claim is given up that nobody has said to be."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A leg named the page as its own at this seq; it gave it up at `released`, or at NEVER as far as was said."""

    seq: int
    leg: Leg
    released: int


class PageClaims:
    """The claims on one page. Most end before the next begins, so a look-up goes through the last few alone."""

    __slots__ = ("_claims", "_longest", "_seqs")

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._seqs: list[int] = []  # of the claims, sorted; empty while that is to be done
        self._longest: list[int] = []  # latest end of any claim up to this one

    def add(self, claim: Claim) -> None:
        """Take one more."""
        self._claims.append(claim)
        self._seqs = []

    def rivals(self, at_seq: int, leg: Leg, *, shared: bool) -> bool:
        """Whether another leg held the page at this seq; of a page that is `shared`, one of another tenant."""
        if not self._seqs:
            self._sort()
        place = bisect_left(self._seqs, at_seq) - 1
        while place >= 0 and self._longest[place] >= at_seq:
            claim = self._claims[place]
            theirs = not shared or (claim.leg.tenant, claim.leg.tenant_key) != (leg.tenant, leg.tenant_key)
            if claim.released >= at_seq and claim.leg.uid != leg.uid and theirs:
                return True
            place -= 1
        return False

    def _sort(self) -> None:
        self._claims.sort(key=lambda claim: claim.seq)
        self._seqs = [claim.seq for claim in self._claims]
        self._longest, longest = [], 0
        for claim in self._claims:
            longest = max(longest, claim.released)
            self._longest.append(longest)
