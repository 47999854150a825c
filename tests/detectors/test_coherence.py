"""Facts that are all there and contradict each other never make a response clean."""

from __future__ import annotations

from typing import Any

import pytest

from detectors.coherence import decode_fits, prefill_fits
from tests.support.legs import chunk, leg

DECODE: dict[str, Any] = {
    "reserved_pages": 3, "prompt_tokens": 40, "need_tokens": 40, "committed": True, "released": True, "read_tokens": 43,
    "output_tokens": 4, "tokens_delivered": 4,
}  # fmt: skip
PREFILL: dict[str, Any] = {
    "chunks": (chunk(0, 40, 3),), "queued_pages": 3, "queued_tokens": 40, "released": True, "written_start": 0,
    "written_end": 40, "cached_tokens": 0,
}  # fmt: skip


def test_an_ordinary_request_fits() -> None:
    assert decode_fits(leg("d", **DECODE))
    assert prefill_fits(leg("p", **PREFILL), 16)


def test_a_leg_that_never_got_anywhere_fits() -> None:
    assert decode_fits(leg("d", reserved_pages=94, prompt_tokens=1500, output_tokens=0, tokens_delivered=0))
    assert prefill_fits(leg("p", queued_pages=0, queued_tokens=0), 16)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reserved_pages": None},
        {"committed": False},
        {"prompt_tokens": None},
        {"released": False},
        {"need_tokens": 41},
        {"read_tokens": None},
        {"read_tokens": 40},
    ],
)
def test_a_decode_leg_that_answered_needs_every_step_of_it(wrong: dict[str, Any]) -> None:
    assert not decode_fits(leg("d", **(DECODE | wrong)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"queued_pages": 2},
        {"queued_tokens": 1},
        {"chunks": (chunk(0, 40, 1),), "queued_pages": 1},
        {"released": False},
        {"written_start": 30},
    ],
)
def test_a_prefill_leg_whose_numbers_disagree_does_not_fit(wrong: dict[str, Any]) -> None:
    assert not prefill_fits(leg("p", **(PREFILL | wrong)), 16)
