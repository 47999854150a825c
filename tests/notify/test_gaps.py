"""An emitter that fell silent is a gap: no count can hold what it served since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from detectors.queries import Queries
from notify.answers import DEFAULT_SCOPES, Detection
from notify.desk import TenantDesk
from notify.exit_codes import ExitCode
from notify.gaps import Loss, Silence, gap_sentences, loss_sentences
from notify.operator_store import OperatorStore
from notify.question import Span
from notify.status import service_status
from tests.support.otlp import TIME_NS, Fact, fact
from tests.support.verdicts import EVIDENCE_KEY, KEYS, START, VerdictBook

Post = Callable[..., None]
AT_ONCE, LATER = timedelta(0), timedelta(hours=1)


def heartbeat(close: str = "open", agent: str = "host1/agent", high_water: int = 0, drops: int = 0) -> Fact:
    return fact(
        "pagewitness.emitter",
        emitter=agent,
        boot="a0" * 16,
        subject_emitter="host1/decode-31001-tp0",
        subject_boot="b0" * 16,
        close=close,
        attested=TIME_NS,
        seq_high_water=high_water,
        drops=drops,
    )


def desk_of(handle: Queries, silence: timedelta) -> TenantDesk:
    return TenantDesk(handle, KEYS, [EVIDENCE_KEY], silence)


def test_a_silent_emitter_makes_every_later_answer_incomplete(book: VerdictBook, handle: Queries, post: Post) -> None:
    book.response("acme")
    book.state()
    post(heartbeat())
    for answer in (
        desk_of(handle, AT_ONCE).recipient("acme", Span(), DEFAULT_SCOPES),
        desk_of(handle, AT_ONCE).donor("acme", Span(), DEFAULT_SCOPES),
    ):
        assert answer.evidence.incomplete_because == [
            "1 emitter fell silent, the first at 2026-09-21T14:13:20.000Z: what they served since is not known"
        ]
        assert answer.exit_code == ExitCode.INCOMPLETE


def test_it_says_nothing_of_which_node_that_is(book: VerdictBook, handle: Queries, post: Post) -> None:
    book.response("acme")
    book.state()
    post(heartbeat())
    answer = desk_of(handle, AT_ONCE).recipient("acme", Span(), DEFAULT_SCOPES)
    assert "host1" not in answer.model_dump_json()


@pytest.mark.parametrize(("close", "silence"), [("open", LATER), ("clean", AT_ONCE), ("crashed", AT_ONCE)])
def test_one_that_is_heard_or_has_ended_is_no_gap(
    book: VerdictBook, handle: Queries, post: Post, close: str, silence: timedelta
) -> None:
    book.response("acme")
    book.state()
    post(heartbeat(close))
    assert desk_of(handle, silence).recipient("acme", Span(), DEFAULT_SCOPES).exit_code == ExitCode.OK


def test_what_another_hosts_agent_says_of_it_does_not_count(book: VerdictBook, handle: Queries, post: Post) -> None:
    book.response("acme")
    book.state()
    post(fact("pagewitness.node.config"), heartbeat("clean", agent="host2/agent"))
    assert desk_of(handle, AT_ONCE).recipient("acme", Span(), DEFAULT_SCOPES).exit_code == ExitCode.INCOMPLETE


def test_a_window_before_the_silence_is_not_concerned() -> None:
    silent = [Silence("host1/decode", START + timedelta(hours=1))]
    assert gap_sentences(silent, Span(START, START + timedelta(hours=1))) == []
    assert len(gap_sentences(silent, Span(START, START + timedelta(hours=2)))) == 1
    assert len(gap_sentences(silent, Span())) == 1


def test_the_operator_is_told_which_it_is(handle: Queries, post: Post) -> None:
    post(heartbeat())
    nothing = Detection(passes=0, failures=0, last_failure=None, last_finished=None)
    status = service_status(OperatorStore(handle), nothing, [], AT_ONCE)
    assert [(one.emitter, one.since) for one in status.silent] == [
        ("host1/decode-31001-tp0", "2026-09-21T14:13:20.000Z")
    ]


def recorded(*seqs: int) -> list[Fact]:
    return [fact("pagewitness.response", seq=seq, ordinal=seq) for seq in seqs]


def incomplete(handle: Queries, window: Span) -> list[str]:
    return desk_of(handle, LATER).recipient("acme", window, DEFAULT_SCOPES).evidence.incomplete_because


def test_a_fact_that_was_recorded_and_is_not_here_makes_the_answer_incomplete(
    book: VerdictBook, handle: Queries, post: Post
) -> None:
    book.response("acme")
    book.state()
    post(*recorded(1, 2, 4), heartbeat("clean", high_water=4))
    (said,) = incomplete(handle, Span())
    assert said.startswith("facts of 1 emitter were lost between 2026-09-21T14:13:20.002Z and 2026-09-21T14:13:20.004Z")


def test_the_last_facts_of_a_boot_that_never_came_are_missed_too(
    book: VerdictBook, handle: Queries, post: Post
) -> None:
    book.response("acme")
    book.state()
    post(*recorded(1, 2), heartbeat("crashed", high_water=5))
    assert len(incomplete(handle, Span())) == 1


def test_dropped_facts_make_the_answer_incomplete(book: VerdictBook, handle: Queries, post: Post) -> None:
    book.response("acme")
    book.state()
    post(*recorded(1, 2), heartbeat("clean", high_water=2, drops=1))
    assert len(incomplete(handle, Span())) == 1


def test_with_every_fact_here_nothing_is_said(book: VerdictBook, handle: Queries, post: Post) -> None:
    book.response("acme")
    book.state()
    post(*recorded(3, 1, 2), heartbeat("clean", high_water=3))
    assert incomplete(handle, Span()) == []


def test_a_loss_outside_the_window_does_not_touch_it() -> None:
    loss = [Loss("host1/decode", START, START + timedelta(minutes=1))]
    assert loss_sentences(loss, Span(START + timedelta(hours=1), None)) == []
    assert loss_sentences(loss, Span(None, START - timedelta(hours=1))) == []
    assert len(loss_sentences(loss, Span(START, START + timedelta(hours=1)))) == 1
