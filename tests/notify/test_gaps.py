"""An emitter that fell silent is a gap: no count can hold what it served since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from detectors.queries import Queries
from notify.answers import DEFAULT_SCOPES, Detection
from notify.desk import TenantDesk
from notify.exit_codes import ExitCode
from notify.gaps import Silence, gap_sentences
from notify.operator_store import OperatorStore
from notify.question import Span
from notify.status import service_status
from tests.support.otlp import TIME_NS, Fact, fact
from tests.support.verdicts import EVIDENCE_KEY, KEYS, START, VerdictBook

Post = Callable[..., None]
AT_ONCE, LATER = timedelta(0), timedelta(hours=1)


def heartbeat(close: str = "open", agent: str = "host1/agent") -> Fact:
    return fact(
        "pagewitness.emitter",
        emitter=agent,
        boot="a0" * 16,
        subject_emitter="host1/decode-31001-tp0",
        subject_boot="b0" * 16,
        close=close,
        attested=TIME_NS,
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
