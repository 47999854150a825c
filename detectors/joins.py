"""Which prefill leg filled the pages of which decode leg.

The key is (room, decode session, digest of the destination pages): both sides saw it, and only the room was chosen by
a client. Where one side never saw a destination (a prompt that prefill rejected was never told one), a room that was
used by exactly one leg of the same tenant on each side joins. Everything else stays unjoined: never a guess.

The key alone does not prove a join while a room is in use twice. An engine keeps its transfers by room: of two legs
in one room, either can be sent to where the other waits, and either's end is taken for both (SGLang 0.5.19,
`transfer_infos` and `request_status` in disaggregation/common/conn.py). So a join holds only where every other leg of
the room is proved to have ended before, or begun after, both of its legs, and left nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from detectors.clocks import Clocks
from detectors.legs import Leg
from detectors.lifetimes import closed, ended_before
from detectors.resumptions import goes_on_with, resumed_leg

DECODE_NOT_SEEN = "decode_leg_not_seen"
"""Why a join has a prefill leg in the place of its decode leg: nothing else is known of the response."""

AMBIGUOUS = "ambiguous_join"

NO_PREFILL = "no_prefill"
"""Why a decode leg has no prefill leg, and never had one: the engine's fake backend stood in for it."""


RESUMED = "resumed"
"""Why a decode leg has no prefill leg: it goes on with a leg that was retracted (:mod:`detectors.resumptions`)."""


@dataclass(frozen=True, slots=True)
class Join:
    """A decode leg and its prefill leg, or why it has none.

    `basis` is ``destination`` (the full key), ``room`` (a room used once on each side) or ``""``; `why_not` is then
    one of ``peer_not_seen``, ``ambiguous_join``, ``join_mismatch``, NO_PREFILL, DECODE_NOT_SEEN, or RESUMED: then
    `resumed` is the leg that it goes on with.
    """

    decode: Leg
    prefill: Leg | None
    basis: str
    why_not: str = ""
    resumed: Leg | None = None
    continued: bool = False  # a leg that goes on with this one was seen


def _key(leg: Leg) -> tuple[int, str, str] | None:
    if len(leg.rooms) != 1 or not leg.session or not leg.destination:
        return None
    return (leg.rooms[0], leg.session, leg.destination)


def join_legs(decodes: Sequence[Leg], prefills: Sequence[Leg], clocks: Clocks) -> list[Join]:
    """Join each decode leg. Both lists must hold *every* leg that named one of the rooms involved."""
    decodes, prefills = ([leg for leg in legs if not leg.alone] for legs in (decodes, prefills))
    resumed = {(leg.resumes, leg.emitter, leg.boot) for leg in decodes if leg.resumes}
    joins = [_join_one(leg, decodes, prefills, clocks) for leg in decodes]
    return [replace(join, continued=join.decode.identity in resumed) for join in joins]


def _join_one(decode: Leg, decodes: Sequence[Leg], prefills: Sequence[Leg], clocks: Clocks) -> Join:
    if len(decode.rooms) != 1:
        return Join(decode, None, "", "peer_not_seen" if not decode.rooms else AMBIGUOUS)
    if decode.resumes:
        first = resumed_leg(decode, decodes)
        return Join(decode, None, "", AMBIGUOUS if first is None else RESUMED, first)
    room = decode.rooms[0]
    same_room = [leg for leg in prefills if room in leg.rooms]
    if not same_room:
        return Join(decode, None, "", "peer_not_seen")
    everyone = [*same_room, *(leg for leg in decodes if room in leg.rooms)]
    exact = [leg for leg in same_room if _key(leg) == _key(decode) and _key(decode) is not None]
    candidates = exact or [leg for leg in same_room if _can_be_peer(decode, leg)]
    found = [leg for leg in candidates if _holds(decode, leg, everyone, clocks)]
    if len({leg.uid for leg in found}) == 1:
        return Join(decode, found[0], "destination" if exact else "room")
    lone = {leg.uid for leg in everyone} == {decode.uid, same_room[0].uid}
    return Join(decode, None, "", "join_mismatch" if lone and differ(decode, same_room[0]) else AMBIGUOUS)


def differ(decode: Leg, prefill: Leg) -> bool:
    """Whether both saw a destination, and not the same one."""
    return any(
        mine and theirs and mine != theirs
        for mine, theirs in ((decode.destination, prefill.destination), (decode.session, prefill.session))
    )


def _can_be_peer(decode: Leg, prefill: Leg) -> bool:
    """Whether only the room speaks for the pair, and nothing against it. A room that somebody else chose too must not
    lay one tenant's rejection at another's door."""
    vouched = (decode.tenant, decode.tenant_key) == (prefill.tenant, prefill.tenant_key)
    return vouched and not differ(decode, prefill)


def _holds(decode: Leg, prefill: Leg, everyone: Sequence[Leg], clocks: Clocks) -> bool:
    """Whether no other leg of the room can have had a part in what passed between these two."""
    if ended_before(decode, prefill, clocks):
        return False
    return not any(
        _interferes(other, decode, prefill, clocks) for other in everyone if other.uid not in (decode.uid, prefill.uid)
    )


def _interferes(other: Leg, decode: Leg, prefill: Leg, clocks: Clocks) -> bool:
    if goes_on_with(other, decode):
        return False  # nothing is sent to where it goes on
    if all(ended_before(mine, other, clocks) for mine in (decode, prefill)):
        return False
    if not all(ended_before(other, mine, clocks) for mine in (decode, prefill)):
        return True
    shares_engine = (other.emitter, other.boot) in {(mine.emitter, mine.boot) for mine in (decode, prefill)}
    return shares_engine and not closed(other)
