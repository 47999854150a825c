"""Identities that were in use twice: what the rule `identity_reuse` reports, found among the legs that share them.

Rooms and request ids are chosen by clients, and engines keep state under them. Only what is proved is reported here;
what cannot be told apart is left unjoined by :mod:`detectors.joins` whether or not it is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from detectors.clocks import Clocks
from detectors.joins import Join
from detectors.legs import Leg
from detectors.lifetimes import closed, ended_before, lived_at_once


def reused_identities(
    join: Join, decodes: Sequence[Leg], prefills: Sequence[Leg], same_rid: Sequence[Leg], clocks: Clocks
) -> list[str]:
    """Variants of `identity_reuse` that the legs of this request took part in.

    `decodes` and `prefills` are the legs of its room, its own included; `same_rid` those with the request id of one
    of its legs. Both legs of a request share room and request id by design, and so do the ranks of one leg.
    """
    found = []
    mine = [leg for leg in (join.decode, join.prefill) if leg is not None]
    others = [leg for leg in decodes if leg.uid != join.decode.uid]
    rivals = [leg for leg in prefills if not ended_before(leg, join.decode, clocks)]
    if any(lived_at_once(join.decode, other, clocks) for other in others) or _any_two_at_once(rivals, clocks):
        found.append("room_live_twice")
    if any(_left_open(other, leg, clocks) for leg in mine for other in (*decodes, *prefills)):
        found.append("room_reopened")
    if any(_same_node(leg, other) and lived_at_once(leg, other, clocks) for leg in mine for other in same_rid):
        found.append("rid_live_twice")
    if join.prefill is not None and _two_owners(join.decode, join.prefill):
        found.append("two_owners")
    return found


def _any_two_at_once(legs: Sequence[Leg], clocks: Clocks) -> bool:
    pairs: Iterable[tuple[Leg, Leg]] = combinations(legs, 2)
    return any(one.uid != other.uid and lived_at_once(one, other, clocks) for one, other in pairs)


def _left_open(earlier: Leg, later: Leg, clocks: Clocks) -> bool:
    """Whether the later leg found the room as an earlier one had left it: with a transfer opened and never done."""
    return earlier.uid != later.uid and not closed(earlier) and ended_before(earlier, later, clocks)


def _same_node(leg: Leg, other: Leg) -> bool:
    """Whether one engine process knew both by one request id."""
    here = (leg.emitter, leg.boot) == (other.emitter, other.boot)
    return here and leg.uid != other.uid and bool(leg.rid) and leg.rid == other.rid


def _two_owners(decode: Leg, prefill: Leg) -> bool:
    """Whether the two legs of one request were filed under two tenants, each of them vouched for."""
    named = bool(decode.tenant_key and prefill.tenant_key)
    return named and (decode.tenant, decode.tenant_key) != (prefill.tenant, prefill.tenant_key)
