"""A run whose evidence is not whole is no capture."""

from __future__ import annotations

from typing import Any

from lab.captures.capture import Body
from lab.engine.evidence_checks import count_spans, faults
from tests.support.otlp import export, fact

PREFILL, DECODE = "lab1/prefill-31000-tp0", "lab1/decode-31001-tp0"


def heartbeat(subject: str, **said: Any) -> Body:
    values: dict[str, Any] = {"subject_emitter": subject, "close": "crashed", "drops": 0, "hook_errors": 0} | said
    return Body(export(fact("pagewitness.emitter", emitter="lab1/agent", **values)), "application/x-protobuf")


def test_two_processes_that_were_drained_to_their_end_are_whole() -> None:
    assert faults([heartbeat(PREFILL), heartbeat(DECODE, close="clean")]) == []


def test_a_process_that_never_posted_is_named() -> None:
    assert faults([heartbeat(DECODE)]) == ["no prefill process posted its evidence"]


def test_a_rank_that_never_posted_is_noticed() -> None:
    bodies = [heartbeat(PREFILL), heartbeat("lab1/prefill-31000-tp1"), heartbeat(DECODE)]
    assert faults(bodies, ranks=2) == ["1 of 2 decode processes posted their evidence"]


def test_a_process_that_was_not_drained_to_its_end_is_named() -> None:
    assert faults([heartbeat(PREFILL), heartbeat(DECODE, close="open")]) == [
        f"{DECODE} is still open in the last heartbeat"
    ]


def test_only_the_last_heartbeat_counts() -> None:
    assert faults([heartbeat(PREFILL), heartbeat(DECODE, close="open"), heartbeat(DECODE)]) == []


def test_a_lost_fact_is_named() -> None:
    assert faults([heartbeat(PREFILL, drops=2), heartbeat(DECODE)]) == [f"{PREFILL} reports pagewitness.drops = 2"]


def test_a_failed_hook_is_named() -> None:
    assert faults([heartbeat(PREFILL), heartbeat(DECODE, hook_errors=1)]) == [
        f"{DECODE} reports pagewitness.hook.errors = 1"
    ]


def test_facts_are_counted_over_all_bodies() -> None:
    assert count_spans([heartbeat(PREFILL), heartbeat(DECODE)]) == 2
