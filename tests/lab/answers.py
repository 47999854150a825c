"""A capture's evidence through the real store and the real rules, for tests: what the answers then are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from detectors.runner import Runner
from detectors.settings import DetectionSettings
from engine_hooks import conventions
from lab.captures.capture import Capture
from lab.captures.compare import compare, true_recipients
from tests.support.stores import fresh_store

CAPTURES = Path(__file__).parents[2] / "lab" / "captures"
LEAK = CAPTURES / "sglang-0.5.19-oversized"
FIXED = CAPTURES / "sglang-0.5.23-oversized"
STALL_SECONDS = 3
"""Below the waiting timeout of 5 seconds with which the engines ran."""


@dataclass(frozen=True)
class Answers:
    """The views `responses`, `foreign_ranges` and `findings` after one pass over a capture."""

    responses: list[dict[str, Any]]
    ranges: list[dict[str, Any]]
    findings: list[dict[str, Any]]

    def verdicts(self) -> dict[str, str]:
        """Verdict by uid of the response."""
        return {row["response_uid"]: row["verdict"] for row in self.responses}


def spans_of(capture: Capture) -> Iterator[Span]:
    """Every fact that the capture's agent posted, as a span."""
    for body in capture.bodies:
        for resource in body.message().resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans


def ordinal_of(span: Span) -> int | None:
    """The fact's ordinal in its leg; None for a fact of no leg."""
    found = [each.value.int_value for each in span.attributes if each.key == conventions.ORDINAL.name]
    return found[0] if found else None


def judge(capture: Capture, keep: Callable[[Span], bool] = lambda _: True) -> Answers:
    """Store the facts of a capture that `keep` keeps, run one pass, and read the answers."""
    whole = ExportTraceServiceRequest()  # in one body: a pass sees all of it at once either way
    for body in capture.bodies:
        whole.MergeFrom(body.message())
    for resource in whole.resource_spans:
        for scope in resource.scope_spans:
            for span in list(scope.spans):
                if not keep(span):
                    scope.spans.remove(span)
    with fresh_store() as store:
        store.insert_otlp(whole.SerializeToString())
        handle = store.handle()
        Runner(handle, DetectionSettings(stall_seconds=STALL_SECONDS)).run_once()
        return Answers(
            handle.rows("SELECT * FROM responses"),
            handle.rows("SELECT * FROM foreign_ranges"),
            handle.rows("SELECT * FROM findings"),
        )


def disagreements(capture: Capture, answers: Answers) -> list[str]:
    """Where the answers say what the truth denies: a list, empty when they agree.

    `unknown` agrees with everything, as far as verdicts go; `clean` and `violation` have to be true, and a violation
    slot by slot.
    """
    found = compare(capture.truth, answers.ranges, answers.responses)
    foreign = true_recipients(capture.truth)
    said = [f"{row['rid']} is called clean, and is not" for row in answers.responses if is_clean(row, foreign)]
    said += [f"{rid} is called a violation, and is none" for rid in found.false_recipients]
    said += [f"a slot that nobody read, or another's: {slot}" for slot in sorted(found.false_slots)]
    named = found.recipients - found.missed_recipients
    said += [f"a slot left out: {slot}" for slot in sorted(found.missed_slots) if slot.recipient in named]
    return said


def is_clean(row: dict[str, Any], foreign: frozenset[str]) -> bool:
    """Whether a response that read foreign bytes is called clean."""
    return row["verdict"] == "clean" and row["rid"] in foreign
