"""Legs that go on where a retracted leg of the same process stopped, over KV that was kept in host memory meanwhile.

A decode node that runs short of pages puts a request aside: it copies its KV to the host, gives the pages up, and
later goes on in fresh pages, as another leg with no transfer of its own. What that leg read is what the first one left,
and is as good as the verdict of the first one; what it computed itself lies behind that.
"""

from __future__ import annotations

from collections.abc import Sequence

from detectors.legs import Leg


def goes_on_with(leg: Leg, first: Leg) -> bool:
    """Whether it is proved that a leg goes on with this one: it says so, is of the same process and request, began when
    that one had been put aside, and had no transfer of its own."""
    if leg.resumes != first.uid or leg.destination or leg.reserved_pages is not None or leg.committed:
        return False
    if (leg.emitter, leg.boot) != (first.emitter, first.boot) or not (leg.ordinals and first.ordinals):
        return False
    same = (first.rid, first.rooms, first.tenant, first.tenant_key) == (leg.rid, leg.rooms, leg.tenant, leg.tenant_key)
    whole = first.end_state == "retracted" and first.ordinals[0] == 1 == leg.ordinals[0]
    return same and whole and first.last_seq < leg.first_seq


def resumed_leg(leg: Leg, decodes: Sequence[Leg]) -> Leg | None:
    """The leg that this one goes on with, out of all decode legs of its room; None where that is not proved, or where
    another one claims the same."""
    here = [other for other in decodes if (other.emitter, other.boot) == (leg.emitter, leg.boot)]
    claims = {other.uid for other in here if other.resumes == leg.resumes}
    found = [other for other in here if goes_on_with(leg, other)]
    return found[0] if len(found) == 1 and claims == {leg.uid} else None


def resumption_fits(leg: Leg, first: Leg) -> bool:
    """Whether all that the leg read was either loaded, out of what the first one had kept, or computed by itself."""
    if leg.read_tokens is None:
        return True
    loaded, kept = leg.loaded_tokens or 0, first.stored_tokens or 0
    had = max(first.read_tokens or 0, first.loaded_tokens or 0)
    if not 0 < loaded <= min(kept, had):
        return False
    # its first step computes one token, and reads that and what was loaded
    return leg.first_read is not None and leg.first_read <= loaded + 1 and leg.released and leg.releases == 1
