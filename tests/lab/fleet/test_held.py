"""An answer that is wrong is counted as what it is: each right answer about a fleet, falsified one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from detectors.queries import Queries
from lab.fleet.faults import parse
from lab.fleet.held import Held, answers_about, hold
from lab.fleet.simulate import Fleet
from tests.support.fleets import judge, small_fleet

Rows = list[dict[str, Any]]


@dataclass
class Judged:
    """A fleet in which some were affected, and the right answers about it."""

    fleet: Fleet
    answers: Rows
    ranges: Rows

    def held(self, *, full_evidence: bool = True) -> Held:
        return hold(self.fleet, self.answers, self.ranges, full_evidence=full_evidence)

    def verdict(self, was: str, now: str) -> None:
        """Falsify the first answer of one kind."""
        next(row for row in self.answers if row["verdict"] == was and not row["derived"])["verdict"] = now


_KEPT: list[Judged] = []


@pytest.fixture
def judged(store: Queries, post: Callable[[Sequence[bytes]], None]) -> Judged:
    if not _KEPT:
        _KEPT.append(_judge(store, post))
    kept = _KEPT[0]
    return Judged(kept.fleet, [dict(row) for row in kept.answers], [dict(row) for row in kept.ranges])


def _judge(store: Queries, post: Callable[[Sequence[bytes]], None]) -> Judged:
    run = small_fleet(4, injections=parse("reject_placeholder"))
    post(run.bodies)
    judge(store, run.fleet)
    answers, ranges = answers_about(store, run.fleet)
    return Judged(run.fleet, [dict(row) for row in answers], [dict(row) for row in ranges])


def test_right_answers_are_right(judged: Judged) -> None:
    held = judged.held()
    assert not held.mistakes
    assert (held.responses, held.affected) == (len(judged.fleet.jobs), len(judged.fleet.truth.affected))
    assert held.affected


def test_an_affected_response_that_is_called_clean(judged: Judged) -> None:
    judged.verdict("violation", "clean")
    assert judged.held().affected_called_clean == 1


def test_another_one_that_is_called_a_violation(judged: Judged) -> None:
    judged.verdict("clean", "violation")
    assert judged.held().unaffected_called_violation == 1


def test_an_unknown_one_counts_only_where_every_fact_is_there(judged: Judged) -> None:
    judged.verdict("clean", "unknown")
    assert judged.held().unknown_with_full_evidence == 1
    assert not judged.held(full_evidence=False).mistakes


def test_a_response_without_an_answer(judged: Judged) -> None:
    judged.answers.remove(next(row for row in judged.answers if row["verdict"] == "clean"))
    assert judged.held().unknown_with_full_evidence == 1


def test_a_donor_who_is_another_one(judged: Judged) -> None:
    part = next(row for row in judged.ranges if row["donor_rid"] and row["page"] >= 0)
    part["donor_rid"] = next(
        job.rid_digest.hex() for job in judged.fleet.jobs if job.rid_digest.hex() != part["donor_rid"]
    )
    assert judged.held().wrong_donor == 1


def test_a_slot_that_is_called_foreign_and_is_not(judged: Judged) -> None:
    part = next(row for row in judged.ranges if row["page"] >= 0)
    judged.ranges.append(part | {"page": 10_000})
    assert judged.held(full_evidence=False).wrong_donor == 1


def test_a_foreign_slot_that_is_not_named(judged: Judged) -> None:
    judged.ranges.remove(next(row for row in judged.ranges if row["page"] >= 0))
    assert judged.held().wrong_donor == 1
    assert not judged.held(full_evidence=False).mistakes


def test_mistakes_of_an_earlier_answer_count_and_its_responses_do_not(judged: Judged) -> None:
    right = judged.held()
    judged.verdict("violation", "clean")
    both = judged.held()
    both.add_mistakes(both)
    assert (both.affected_called_clean, len(both.mistakes)) == (2, 2)
    assert (both.responses, both.affected, both.unknown) == (right.responses, right.affected, right.unknown)
