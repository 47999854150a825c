"""When legs lived, as far as two of them can be told apart: by seq on one emitter, by measured clocks across hosts.

Two things can be proved, and neither is the opposite of the other: that one leg had ended before another began, and
that two lived at once. Between them lies what nobody can say, because an end was not seen, a beginning was lost, or
the clocks are not known well enough.
"""

from __future__ import annotations

from detectors.clocks import Clocks
from detectors.legs import Leg


def ended_before(one: Leg, other: Leg, clocks: Clocks) -> bool:
    """Whether it is proved that `one` had ended when `other` began."""
    if one.ended is None or not other.ordinals or other.ordinals[0] != 1:
        return False  # it may still live; or the other's first facts were lost, and it began nobody knows when
    if (one.emitter, one.boot) == (other.emitter, other.boot):
        return one.last_seq < other.first_seq
    return one.ended + clocks.between(one, other, one.ended).high < other.started


def lived_at_once(one: Leg, other: Leg, clocks: Clocks) -> bool:
    """Whether it is proved that both lived at one time, from the facts that are here."""
    if (one.emitter, one.boot) == (other.emitter, other.boot):
        return one.first_seq < other.last_seq and other.first_seq < one.last_seq
    shift = clocks.between(one, other, one.started)
    return one.started + shift.high < other.last_time and other.started < one.last_time + shift.low


def closed(leg: Leg) -> bool:
    """Whether a leg that has ended left nothing behind under its room: no transfer that was opened and never done.

    An engine may keep what it knows of a room whose transfer failed; the next request in that room finds it.
    """
    if leg.end_state in ("finished", "rejected", "retracted"):
        return True
    opened = bool(leg.destination) or leg.reserved_pages is not None
    return not opened or leg.committed
