"""How the agent measures its clock against the receiver's: never further off than it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine_hooks.clock_offset import DRIFT_PER_SECOND_NS, ClockOffset

SECOND = 10**9
MILLI = 10**6


class Host:
    """A host whose wall clock is `ahead` of the receiver's. Time passes when told to."""

    def __init__(self, ahead: int = 0) -> None:
        self.true = 1_790_000_000 * SECOND
        self.ahead = ahead
        self.offset = ClockOffset(wall=lambda: self.true + self.ahead, monotonic=lambda: self.true)

    def exchange(self, there: int, back: int) -> None:
        """A message that takes so long to the receiver, and its answer so long back."""
        started = self.offset.start()
        self.true += there
        said = str(self.true)
        self.true += back
        self.offset.note(started, said)


@given(
    ahead=st.integers(-3 * SECOND, 3 * SECOND),
    trips=st.lists(st.tuples(st.integers(0, SECOND), st.integers(0, SECOND)), min_size=1, max_size=5),
    idle=st.integers(0, 600 * SECOND),
)
def test_the_true_offset_lies_within_the_error(ahead: int, trips: list[tuple[int, int]], idle: int) -> None:
    host = Host(ahead)
    for there, back in trips:
        host.exchange(there, back)
    host.true += idle
    found = host.offset.estimate()
    assert found is not None
    offset, error = found
    assert abs(offset + ahead) <= error


def test_the_quickest_of_recent_answers_counts() -> None:
    host = Host()
    host.exchange(200 * MILLI, 100 * MILLI)
    host.exchange(MILLI, MILLI)
    host.exchange(100 * MILLI, 300 * MILLI)
    found = host.offset.estimate()
    assert found is not None
    assert found[1] < 2 * MILLI


def test_age_makes_it_less_sure() -> None:
    host = Host()
    host.exchange(MILLI, MILLI)
    host.true += 100 * SECOND
    found = host.offset.estimate()
    assert found is not None
    assert found[1] == MILLI + 1 + 100 * DRIFT_PER_SECOND_NS


def test_a_clock_that_was_set_voids_what_was_measured_before() -> None:
    host = Host()
    host.exchange(MILLI, MILLI)
    host.ahead = 2 * SECOND
    assert host.offset.estimate() is None
    host.exchange(MILLI, MILLI)
    found = host.offset.estimate()
    assert found is not None
    assert abs(found[0] + 2 * SECOND) <= found[1]


def test_a_clock_that_was_set_while_the_message_was_under_way_says_nothing() -> None:
    host = Host()
    started = host.offset.start()
    host.true, host.ahead = host.true + MILLI, SECOND
    host.offset.note(started, str(host.true))
    assert host.offset.estimate() is None


def test_no_time_in_the_answer_or_an_odd_one_says_nothing() -> None:
    host = Host()
    for header in (None, "", "soon", "-5", "1e9", "9" * 20, "١٢٣"):
        host.offset.note(host.offset.start(), header)
    assert host.offset.estimate() is None
