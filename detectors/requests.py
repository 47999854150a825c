"""Requests: legs found by uid or room, with the role of their node, joined on demand and kept for one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from detectors.boots import Boots
from detectors.clocks import Clocks
from detectors.identities import reused_identities
from detectors.joins import AMBIGUOUS, DECODE_NOT_SEEN, NO_PREFILL, Join, join_legs
from detectors.legs import Leg, legs_by_uid, uids_of_rids, uids_of_rooms
from detectors.orphans import orphans
from detectors.queries import Queries

MOST_OF_ROOM = 64
"""A room that more legs than this named is not looked into: nothing in it is joined. A client can name one for all."""
SENDS = frozenset({"transfer.destination", "transfer.queued"})
"""The facts without which a prefill leg that had a peer looks like one that had none."""
MOST_OF_RID = 16
"""So many legs of one request id are looked at for two that lived at once."""


def role_of(leg: Leg, boots: Boots) -> str:
    """Role of the node that recorded a leg: from its configuration, else from its facts, else ``unknown``."""
    config = boots.get(leg.emitter, leg.boot).config
    if config is not None:
        return config.role
    if leg.receives:
        return "decode"
    return "prefill" if leg.sends else "unknown"


class Requests:
    """All legs of the rooms that were asked for. One object serves one pass."""

    def __init__(self, store: Queries, boots: Boots, clocks: Clocks) -> None:
        self._store = store
        self._boots = boots
        self._clocks = clocks
        self._legs: dict[str, list[Leg]] = {}  # uid -> one leg a rank
        self._by_room: dict[int, set[str]] = {}
        self._by_rid: dict[str, set[str]] = {}
        self._complete_rooms: set[int] = set()
        self._crowded_rooms: set[int] = set()
        self._joins: dict[tuple[str, str, str], Join] = {}  # (uid, emitter, boot) of the decode leg
        self._known: dict[tuple[str, str, str], Join | None] = {}
        self._orphans: dict[tuple[int, ...], set[str]] = {}  # rooms -> prefill legs without a decode leg

    def load(self, uids: Iterable[str]) -> None:
        """Load these legs and every leg that shares a room with one of them."""
        fresh = [uid for uid in set(uids) if uid not in self._legs]
        self._add(fresh)
        rooms = {room for uid in fresh for leg in self._legs.get(uid, ()) if not leg.alone for room in leg.rooms}
        rooms -= self._complete_rooms
        uids_of = uids_of_rooms(self._store, sorted(rooms), MOST_OF_ROOM)
        crowded = {room for room, named in uids_of.items() if len(named) > MOST_OF_ROOM}
        self._crowded_rooms |= crowded
        found = {uid for room, named in uids_of.items() if room not in crowded for uid in named}
        self._add(sorted(found - self._legs.keys()))
        self._complete_rooms |= rooms

    def known(self, uid: str) -> Sequence[Leg]:
        """The legs with this uid, one a rank, if they were loaded; nothing is asked of the store."""
        return self._legs.get(uid, ())

    def _add(self, uids: list[str]) -> None:
        ranks: dict[str, list[Leg]] = {uid: [] for uid in uids}
        for found in legs_by_uid(self._store, uids):
            config = self._boots.get(found.emitter, found.boot).config
            blind = config is not None and not SENDS.isdisjoint(config.hooks_missing)
            ranks[found.uid].append(replace(found, sends_unseen=True) if blind else found)
        for uid, legs in ranks.items():
            self._legs[uid] = self._of_one_node(legs)
            for leg in self._legs[uid]:
                self._by_rid.setdefault(leg.rid, set()).add(leg.uid)
                for room in () if leg.alone else leg.rooms:
                    self._by_room.setdefault(room, set()).add(leg.uid)

    def _of_one_node(self, legs: list[Leg]) -> list[Leg]:
        """A uid is drawn by one node, and the ranks that recorded it are that node's: the one that was heard first.

        What another node files under the same uid is left out, so that it can move no response to somebody else; that
        it did so is kept, and nothing of that leg is clean.
        """
        configured = [(config.node, leg) for leg in legs if (config := self._boots.get(leg.emitter, leg.boot).config)]
        if not configured:
            return legs
        first, _ = min(configured, key=lambda one: (one[1].heard, one[1].emitter))
        mine = [leg for node, leg in configured if node == first]
        return mine if len(mine) == len(configured) else [replace(leg, contradicted=True) for leg in mine]

    def load_namesakes(self, uids: Iterable[str]) -> None:
        """Load the legs that have the request id of one of these, for `reused_identities`."""
        legs = [leg for uid in uids for leg in self._legs.get(uid, ())]
        self._add([uid for uid in uids_of_rids(self._store, legs, MOST_OF_RID) if uid not in self._legs])

    def response_uids(self, uids: Iterable[str]) -> list[str]:
        """Uids, among these and the legs that share a room with them, that stand for a response."""
        related = set(uids)
        for uid in list(related):
            for leg in self._legs.get(uid, ()):
                for room in leg.rooms:
                    related |= self._by_room.get(room, set())
        return sorted(uid for uid in related if any(self._stands_for_response(leg) for leg in self._legs.get(uid, ())))

    def prefill_uids(self, uids: Iterable[str]) -> set[str]:
        """Uids, among the legs that share a room with these, of prefill legs that do *not* stand for a response."""
        legs = [other for uid in uids for leg in self._legs.get(uid, ()) for other in self._neighbours(leg)]
        return {leg.uid for leg in legs if not self._stands_for_response(leg)}

    def _stands_for_response(self, leg: Leg) -> bool:
        """A decode leg does; a prefill leg only while no decode leg of its room accounts for it."""
        return role_of(leg, self._boots) != "prefill" or self._is_orphan(leg)

    def _is_orphan(self, leg: Leg) -> bool:
        if leg.alone or self._crowded(leg):
            return False  # it has no decode leg, or nobody looks for it
        if not leg.rooms:
            return True  # nothing leads from it to a decode leg
        if leg.rooms not in self._orphans:
            legs = self._neighbours(leg)
            prefills = [other for other in legs if role_of(other, self._boots) == "prefill" and not other.alone]
            decodes = [other for other in legs if role_of(other, self._boots) != "prefill"]
            joins = [join for other in decodes if (join := self.join_of(other)) is not None]
            self._orphans[leg.rooms] = orphans(joins, prefills, self._clocks)
        return leg.uid in self._orphans[leg.rooms]

    def joins(self, uid: str) -> list[Join]:
        """The joins of a response's leg, one for each rank that recorded it."""
        self.load([uid])
        return [join for leg in self._legs[uid] if (join := self.join_of(leg)) is not None]

    def join_of(self, leg: Leg) -> Join | None:
        """The join of one decode leg; None for a leg of a prefill node, unless it has to stand for its response."""
        key = leg.identity
        if key not in self._known:  # each leg is asked about once for every page that it held
            self._known[key] = self._join_of(leg)
        return self._known[key]

    def _join_of(self, asked: Leg) -> Join | None:
        self.load([asked.uid])
        place = (asked.emitter, asked.boot)  # the leg as it is known here, whoever read it
        leg = next((one for one in self._legs[asked.uid] if (one.emitter, one.boot) == place), asked)
        if role_of(leg, self._boots) == "prefill":
            return Join(leg, None, "", DECODE_NOT_SEEN) if self._is_orphan(leg) else None
        if leg.alone:
            return Join(leg, None, "", NO_PREFILL)
        key = leg.identity
        if key not in self._joins:
            neighbours = self._neighbours(leg)
            decodes = [other for other in neighbours if role_of(other, self._boots) != "prefill"]
            prefills = [other for other in neighbours if role_of(other, self._boots) == "prefill"]
            if self._crowded(leg):
                self._joins[key] = Join(leg, None, "", AMBIGUOUS)
                return self._joins[key]
            for join in join_legs(decodes, prefills, self._clocks):
                self._joins[join.decode.identity] = join
        return self._joins[key]

    def reused_identities(self, join: Join) -> list[str]:
        """Variants of `identity_reuse` that the legs of a request took part in (see :mod:`detectors.identities`)."""
        if self._crowded(join.decode):
            return ["room_crowded"]
        legs = self._neighbours(join.decode)
        decodes = [leg for leg in legs if role_of(leg, self._boots) != "prefill"]
        prefills = [leg for leg in legs if role_of(leg, self._boots) == "prefill"]
        rids = {leg.rid for leg in (join.decode, join.prefill) if leg is not None and leg.rid}
        uids = set[str]().union(*(self._by_rid.get(rid, set()) for rid in rids))
        namesakes = [leg for uid in sorted(uids) for leg in self._legs[uid]]
        return reused_identities(join, decodes, prefills, namesakes, self._clocks)

    def _crowded(self, leg: Leg) -> bool:
        return not leg.alone and any(room in self._crowded_rooms for room in leg.rooms)

    def response_of(self, leg: Leg) -> str:
        """Uid of the response that a leg belongs to: its own on a decode node, its decode leg's on a prefill node."""
        if role_of(leg, self._boots) != "prefill":
            return leg.uid
        self.load([leg.uid])
        for other in self._neighbours(leg):
            join = self.join_of(other) if other.uid != leg.uid else None
            if join is not None and join.prefill is not None and join.prefill.uid == leg.uid:
                return join.decode.uid
        return ""

    def _neighbours(self, leg: Leg) -> list[Leg]:
        """Every leg that shares a room with this one, itself included."""
        rooms = () if leg.alone else leg.rooms
        uids = {leg.uid}.union(*(self._by_room.get(room, set()) for room in rooms))
        return [other for uid in sorted(uids) for other in self._legs[uid]]
