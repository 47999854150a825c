"""What the agent says of its clock and of the engine's count, on the way to the receiver."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine_hooks.clock_offset import ClockOffset
from engine_hooks.drain import Drain
from engine_hooks.engine_count import EngineCounts
from engine_hooks.heartbeat import Heartbeats
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.receiver import Sent, decode
from tests.engine_hooks.support import a_ring


@pytest.fixture
def drain(tmp_path: Path) -> Drain:
    ring = a_ring(tmp_path)
    return Drain(RingReader.open(ring.path))


def beat(heartbeats: Heartbeats, drain: Drain) -> Sent:
    (sent,) = decode(heartbeats.batch([drain]).body)
    return sent


def test_the_offset_is_in_the_word_where_it_was_measured(drain: Drain) -> None:
    offset = ClockOffset()
    offset.note(offset.start(), str(time.time_ns() + 2 * 10**9))
    sent = beat(Heartbeats("host1/agent", offset), drain)
    assert abs(sent.values["pagewitness.clock.offset"] - 2 * 10**9) <= sent.values["pagewitness.clock.error"]


def test_with_a_stock_collector_in_between_nothing_is_said_of_the_clock(drain: Drain) -> None:
    sent = beat(Heartbeats("host1/agent", ClockOffset(), EngineCounts(())), drain)
    assert not [name for name in sent.values if "clock" in name or "requests" in name]
