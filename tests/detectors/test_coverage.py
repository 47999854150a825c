"""What a transfer can have covered: exact with a complete prefill leg, else bounded by any one fact that bounds it."""

from __future__ import annotations

import pytest

from detectors.coverage import contiguous_tokens, covered_tokens
from tests.support.legs import chunk, leg

DECODE = leg("d", prefix_tokens=0, prompt_tokens=100)


def complete(**given: object) -> object:
    return leg("p", ordinals=(1, 2, 3), leg_facts=3, **given)


def test_chunks_in_an_unbroken_row_add_up() -> None:
    assert contiguous_tokens([chunk(2, 10), chunk(0, 32)], 16, 0) == 42


def test_coverage_ends_at_the_first_gap() -> None:
    assert contiguous_tokens([chunk(0, 16), chunk(2, 16)], 16, 0) == 16


def test_a_chunk_sent_twice_counts_once() -> None:
    assert contiguous_tokens([chunk(0, 16), chunk(0, 16), chunk(1, 4)], 16, 0) == 20


def test_chunks_count_from_the_end_of_the_receivers_own_prefix() -> None:
    assert contiguous_tokens([chunk(0, 20)], 16, 32) == 52


def test_nothing_sent_covers_only_the_prefix() -> None:
    assert contiguous_tokens([], 16, 32) == 32


def test_a_complete_prefill_leg_is_taken_at_its_word() -> None:
    prefill = complete(chunks=(chunk(0, 1),), sender_pages=1)
    assert covered_tokens(DECODE, prefill, 16) == 1  # type: ignore[arg-type]


def test_what_was_sent_beyond_what_prefill_computed_is_not_covered() -> None:
    prefill = complete(chunks=(chunk(0, 100, 7),), sender_pages=7, written_end=64)
    assert covered_tokens(DECODE, prefill, 16) == 64  # type: ignore[arg-type]


def test_a_prefill_leg_that_lost_its_end_is_exact_up_to_its_release() -> None:
    prefill = leg(
        "p", ordinals=(1, 2, 3, 4), release_ordinal=4, chunks=(chunk(0, 32, 2),), sender_pages=7, written_end=100
    )
    assert covered_tokens(DECODE, prefill, 16) == 32


def test_a_hole_before_the_release_may_be_a_chunk() -> None:
    prefill = leg(
        "p", ordinals=(1, 2, 4), release_ordinal=4, chunks=(chunk(0, 32, 2),), sender_pages=7, written_end=100
    )
    assert covered_tokens(DECODE, prefill, 16) == 100


@pytest.mark.parametrize(
    ("fact", "bound"),
    [({"sender_pages": 1}, 16), ({"written_end": 1}, 1), ({"queued_tokens": 1}, 1), ({"rejected": True}, 1)],
)
def test_any_one_fact_that_limits_the_transfer_bounds_an_incomplete_leg(fact: dict[str, object], bound: int) -> None:
    assert covered_tokens(DECODE, leg("p", **fact), 16) == bound


def test_an_incomplete_leg_that_says_nothing_of_its_length_bounds_nothing() -> None:
    assert covered_tokens(DECODE, leg("p", chunks=(chunk(0, 16),)), 16) is None


def test_without_a_prefill_leg_nothing_is_bounded() -> None:
    assert covered_tokens(DECODE, None, 16) is None
