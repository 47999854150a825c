"""What an agent's words on a boot mean: how far it vouches, where facts may have been dropped, when it is a gap."""

from __future__ import annotations

from datetime import timedelta

from detectors.boots import EPOCH, FAR, NO_SEQ_ABOVE, Boot, Boots, Heartbeat, NodeConfig
from detectors.clocks import Clocks
from tests.support.legs import START

SECOND = timedelta(seconds=1)
CLOCKS = Clocks(None, SECOND)
"""Nobody measured anything: clocks may be a second apart."""


def beat(at: int, drops: int = 0, high_water: int = 0) -> Heartbeat:
    return Heartbeat(START + at * SECOND, drops, high_water)


def open_boot(name: str, attested: int, heard: int | None = None) -> Boot:
    word = START + attested * SECOND
    return Boot(name, "b0", heard=START + (heard or attested) * SECOND, attested=word, last_word=word)


def closed_boot(name: str, last: int) -> Boot:
    word = START + last * SECOND
    return Boot(name, "b0", heard=word, attested=FAR, last_word=word, closed=True)


def test_the_watermark_is_the_slowest_living_emitter_less_the_clock_error() -> None:
    boots = Boots([open_boot("a", 10), open_boot("b", 7), closed_boot("c", 1)])
    assert boots.watermark(START + 11 * SECOND, 60 * SECOND, CLOCKS) == START + 6 * SECOND


def test_a_silent_emitter_leaves_the_watermark() -> None:
    boots = Boots([open_boot("a", 100), open_boot("b", 7)])
    assert boots.watermark(START + 101 * SECOND, 60 * SECOND, CLOCKS) == START + 99 * SECOND


def test_an_emitter_that_just_appeared_holds_the_watermark_until_its_agent_speaks() -> None:
    boots = Boots([open_boot("a", 100), Boot("b", "b0", heard=START + 100 * SECOND)])
    assert boots.watermark(START + 101 * SECOND, 60 * SECOND, CLOCKS) == EPOCH


def test_with_every_boot_closed_the_watermark_is_the_last_word() -> None:
    boots = Boots([closed_boot("a", 5), closed_boot("b", 9)])
    assert boots.watermark(START + 500 * SECOND, 60 * SECOND, CLOCKS) == START + 8 * SECOND


def dropping(*beats: Heartbeat) -> Boot:
    return Boot("a", "b0", heartbeats=list(beats))


def test_drops_between_two_heartbeats_touch_what_ran_then_and_nothing_else() -> None:
    one = dropping(beat(10), beat(20, drops=3), beat(30, drops=3))
    assert one.dropped_between(START + 12 * SECOND, START + 15 * SECOND)
    assert one.dropped_between(START + 5 * SECOND, START + 11 * SECOND)
    assert not one.dropped_between(START + 1 * SECOND, START + 9 * SECOND)
    assert not one.dropped_between(START + 21 * SECOND, START + 25 * SECOND)


def test_a_drop_hides_every_seq_up_to_what_a_later_heartbeat_vouches_for() -> None:
    one = dropping(beat(10, high_water=50), beat(20, drops=1, high_water=80), beat(30, drops=1, high_water=90))
    assert one.drop_holes() == [90]


def test_a_drop_that_no_later_heartbeat_bounds_hides_everything() -> None:
    assert dropping(beat(10), beat(20, drops=1, high_water=80)).drop_holes() == [NO_SEQ_ABOVE]


def test_a_boot_that_appeared_while_a_pass_ran_is_open_and_not_silent() -> None:
    """Its first facts came after the boots were read: nothing about it is missing for good."""
    boot = Boots([]).get("a", "b0")
    assert not boot.silent(START, 60 * SECOND)
    assert not boot.closed
    assert boot.attested == EPOCH


def rank(name: str, node: str, *names: str) -> Boot:
    config = NodeConfig(node, "decode", 0, 2, "m", 16, 1000, (), names)
    return Boot(name, name * 2, config=config)


def test_a_rank_that_another_lists_and_nobody_heard_is_missing() -> None:
    boots = Boots([rank("h/tp0", "n1", "h/tp0", "h/tp1"), rank("h/tp1", "n2", "h/tp1")])
    assert boots.unheard_ranks("n1") == {"h/tp1"}  # one of that name was heard, of another life of the node
    assert boots.unheard_ranks("n2") == set()
