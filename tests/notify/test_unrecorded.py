"""Requests that an engine finished and nobody recorded: its own count gives them away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from detectors.queries import Queries
from notify.answers import DEFAULT_SCOPES, Detection
from notify.desk import TenantDesk
from notify.exit_codes import ExitCode
from notify.gaps import SHORTFALLS, Shortfall, shortfall_sentences, shortfalls, unrecorded
from notify.operator_store import OperatorStore
from notify.question import Span
from notify.render.screen import Screen
from notify.render.status_table import show_status
from notify.status import service_status
from tests.support.otlp import TIME_NS, Fact, fact
from tests.support.verdicts import EVIDENCE_KEY, KEYS, START, VerdictBook

Post = Callable[..., None]
MINUTE = 60 * 10**9
NOON = TIME_NS - TIME_NS % MINUTE
NODE = "host1/decode-31001-tp0"


def counted(requests: int, minute: int, second: int = 30) -> Fact:
    """The agent's word that the engine had finished so many requests by then."""
    return fact(
        "pagewitness.emitter",
        emitter="host1/agent",
        boot="a0" * 16,
        seq=100 * minute + second + 1,
        subject_emitter=NODE,
        subject_boot="b0" * 16,
        close="clean",
        attested=NOON + minute * MINUTE + second * 10**9,
        seq_high_water=0,
        drops=0,
        engine_requests=requests,
    )


def answered(count: int, minute: int, first_seq: int) -> list[Fact]:
    """So many legs answered in this minute."""
    return [
        fact(
            "pagewitness.response",
            emitter=NODE,
            boot="b0" * 16,
            seq=first_seq + n,
            uid=f"{first_seq + n:032x}",
            time_ns=NOON + minute * MINUTE + n,
        )
        for n in range(count)
    ]


def found(handle: Queries) -> list[tuple[int, int]]:
    """(minute, missing) of each shortfall."""
    return [
        (round((one.later.timestamp() * 10**9 - NOON) / MINUTE) - 1, one.missing)
        for one in shortfalls(handle.rows(SHORTFALLS))
    ]


def test_each_rise_of_what_is_missing_is_found_once_in_its_minute(handle: Queries, post: Post) -> None:
    post(*answered(3, 0, 1), counted(3, 0), *answered(2, 1, 4), counted(6, 1), counted(6, 2), counted(8, 4))
    assert found(handle) == [(1, 1), (4, 3)]


def test_more_legs_than_the_engine_counted_are_no_shortfall(handle: Queries, post: Post) -> None:
    """Health checks leave legs, and the engine does not count them."""
    post(*answered(5, 0, 1), counted(4, 0), counted(5, 3))
    assert found(handle) == []


def test_an_answer_is_incomplete_and_names_no_node(book: VerdictBook, handle: Queries, post: Post) -> None:
    book.response("acme")
    book.state()
    post(*answered(1, 0, 1), counted(3, 0))
    desk = TenantDesk(handle, KEYS, [EVIDENCE_KEY], timedelta(hours=1))
    answer = desk.recipient("acme", Span(), DEFAULT_SCOPES)
    (because,) = answer.evidence.incomplete_because
    assert because.startswith("by the engines' own count 2 requests served up to")
    assert answer.exit_code == ExitCode.INCOMPLETE
    assert "host1" not in answer.model_dump_json()
    assert desk.recipient("acme", Span(START, START + timedelta(hours=1)), DEFAULT_SCOPES).exit_code == ExitCode.OK


def test_the_operator_is_told_how_many_on_which_node(
    handle: Queries, post: Post, capsys: pytest.CaptureFixture[str]
) -> None:
    post(*answered(1, 0, 1), counted(3, 0))
    nothing = Detection(passes=0, failures=0, last_failure=None, last_finished=None)
    status = service_status(OperatorStore(handle), nothing, [])
    assert status.unrecorded == {NODE: 2}
    show_status(status, Screen())
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{NODE}: 2 requests finished by the engine's own count left no leg" in shown


def test_what_is_missing_adds_up_over_boots_and_not_over_minutes() -> None:
    def one(boot: str, missing: int) -> Shortfall:
        return Shortfall(NODE, boot, START, START, missing)

    assert unrecorded([one("a", 1), one("a", 3), one("b", 2)]) == {NODE: 5}


def test_a_window_that_was_over_before_is_not_concerned() -> None:
    shortfall = [Shortfall(NODE, "a", START + timedelta(hours=1), START + timedelta(hours=2), 1)]
    assert shortfall_sentences(shortfall, Span(START, START + timedelta(hours=1))) == []
    assert len(shortfall_sentences(shortfall, Span(START, START + timedelta(hours=3)))) == 1
