"""Prefill legs whose decode leg was not seen: each stands for a response of which nothing else is known.

One decode leg accounts for one prefill leg. Where legs of a room could not be joined, nobody knows which belong
together, but how many are too many can be told: they are paired off as far as that is possible at all, and a prefill
leg that is left over lacks its decode leg. Only legs of one tenant are paired, so that nobody's leg can account for
somebody else's; and legs with one request id belong together, wherever a room in use twice had them send to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detectors.clocks import Clocks
from detectors.joins import RESUMED, Join, differ
from detectors.legs import Leg
from detectors.lifetimes import ended_before


def orphans(joins: Sequence[Join], prefills: Sequence[Leg], clocks: Clocks) -> set[str]:
    """Uids of prefill legs, among all of a room, that no decode leg of the room accounts for.

    `joins` are those of every decode leg of the room, one for each rank.
    """
    taken = {join.prefill.uid for join in joins if join.prefill is not None}
    joined = {join.decode.uid for join in joins if join.prefill is not None}
    loose = _by_uid([join.decode for join in joins if join.decode.uid not in joined and join.why_not != RESUMED])
    free = {
        uid: legs
        for uid, legs in _by_uid(prefills).items()
        if uid not in taken and not any(_ran_again(leg, prefills) for leg in legs)
    }
    options = {
        uid: [
            other for other, decodes in loose.items() if any(_may_be_peer(d, p, clocks) for d in decodes for p in legs)
        ]
        for uid, legs in free.items()
    }
    return free.keys() - _paired(options)


def _by_uid(legs: Sequence[Leg]) -> dict[str, list[Leg]]:
    """Legs by uid, one a rank, the oldest first."""
    found: dict[str, list[Leg]] = {}
    for leg in sorted(legs, key=lambda leg: (leg.started, leg.uid)):
        found.setdefault(leg.uid, []).append(leg)
    return found


def _ran_again(leg: Leg, prefills: Sequence[Leg]) -> bool:
    """Whether the engine gave this attempt up, and a later one of the same request is here."""
    if leg.end_state != "retracted":
        return False
    return any(other.rid == leg.rid and other.started > leg.started for other in prefills if other.uid != leg.uid)


def _may_be_peer(decode: Leg, prefill: Leg, clocks: Clocks) -> bool:
    if (decode.tenant, decode.tenant_key) != (prefill.tenant, prefill.tenant_key):
        return False
    if ended_before(decode, prefill, clocks):
        return False
    if decode.rid and decode.rid == prefill.rid:
        return True  # of one request, wherever a room that was in use twice had it send to
    if differ(decode, prefill):
        return False
    # decode names its pages before prefill can be told of them
    return not (prefill.destination and ended_before(prefill, decode, clocks))


def _paired(options: Mapping[str, Sequence[str]]) -> set[str]:
    """Those that get one of their options each, as many as can (augmenting paths: Kuhn 1955)."""
    holder: dict[str, str] = {}

    def placed(uid: str, tried: set[str]) -> bool:
        for option in options[uid]:
            if option not in tried:
                tried.add(option)
                if option not in holder or placed(holder[option], tried):
                    holder[option] = uid
                    return True
        return False

    return {uid for uid in options if placed(uid, set())}
