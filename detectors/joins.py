"""Which prefill leg filled the pages of which decode leg.

The key is (room, decode session, digest of the destination pages): both sides saw it, and only the room was chosen by
a client. Where one side never saw a destination (a prompt that prefill rejected was never told one), a room that was
used by exactly one leg on each side joins. Everything else stays unjoined: never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from detectors.legs import Leg

DECODE_NOT_SEEN = "decode_leg_not_seen"
"""Why a join has a prefill leg in the place of its decode leg: nothing else is known of the response."""


@dataclass(frozen=True, slots=True)
class Join:
    """A decode leg and its prefill leg, or why it has none.

    `basis` is ``destination`` (the full key), ``room`` (a room used once on each side) or ``""``; `why_not` is then
    one of ``peer_not_seen``, ``ambiguous_join``, ``join_mismatch``, DECODE_NOT_SEEN.
    """

    decode: Leg
    prefill: Leg | None
    basis: str
    why_not: str = ""


def _key(leg: Leg) -> tuple[int, str, str] | None:
    if len(leg.rooms) != 1 or not leg.session or not leg.destination:
        return None
    return (leg.rooms[0], leg.session, leg.destination)


def join_legs(decodes: Sequence[Leg], prefills: Sequence[Leg]) -> list[Join]:
    """Join each decode leg. Both lists must hold *every* leg that named one of the rooms involved."""
    return [_join_one(leg, decodes, prefills) for leg in decodes]


def _join_one(decode: Leg, decodes: Sequence[Leg], prefills: Sequence[Leg]) -> Join:
    if len(decode.rooms) != 1:
        return Join(decode, None, "", "peer_not_seen" if not decode.rooms else "ambiguous_join")
    room = decode.rooms[0]
    same_room = [leg for leg in prefills if room in leg.rooms]
    if not same_room:
        return Join(decode, None, "", "peer_not_seen")
    key = _key(decode)
    exact = [leg for leg in same_room if key is not None and _key(leg) == key]
    if exact:
        rivals = [leg for leg in decodes if _key(leg) in (key, None) and room in leg.rooms]
        keyless = [leg for leg in same_room if _key(leg) is None]  # any of these may be the one
        if len(exact) == 1 and rivals == [decode] and not keyless:
            return Join(decode, exact[0], "destination")
        return Join(decode, None, "", "ambiguous_join")
    others = {leg.uid for leg in decodes if room in leg.rooms}
    if len({leg.uid for leg in same_room}) > 1 or len(others) > 1:
        return Join(decode, None, "", "ambiguous_join")
    peer = same_room[0]
    if (decode.destination and peer.destination and decode.destination != peer.destination) or (
        decode.session and peer.session and decode.session != peer.session
    ):
        return Join(decode, None, "", "join_mismatch")
    return Join(decode, peer, "room")
