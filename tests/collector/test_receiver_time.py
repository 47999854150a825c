"""Every answer of the receiver says what time it is there: agents measure their clocks by it."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
import pytest

from engine_hooks.clock_offset import TIME_HEADER, ClockOffset
from tests.support.otlp import Fact, export
from tests.support.receivers import Sender

READ = "pagewitness.page.read"


def test_an_answer_names_a_time_between_the_question_and_its_arrival(host1: Sender, made: Callable[..., Fact]) -> None:
    before = time.time_ns()
    said = host1.post(export(made(READ))).headers[TIME_HEADER]
    assert before <= int(said) <= time.time_ns()


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nobody"}])
def test_a_refusal_does_too(url: str, headers: dict[str, str]) -> None:
    answer = httpx.post(url, content=b"", headers=headers)
    assert answer.status_code == 401
    assert answer.headers[TIME_HEADER].isdigit()


def test_an_agent_on_the_same_host_finds_no_offset_beyond_its_error(host1: Sender, made: Callable[..., Fact]) -> None:
    offset = ClockOffset()
    started = offset.start()
    offset.note(started, host1.post(export(made(READ))).headers[TIME_HEADER])
    found = offset.estimate()
    assert found is not None
    assert abs(found[0]) <= found[1]
