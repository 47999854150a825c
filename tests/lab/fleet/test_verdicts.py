"""Verdicts about a fleet against the content of its pools, with every fact there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.pages import UNKNOWN_PAGE
from detectors.queries import Queries
from lab.fleet.faults import parse
from lab.fleet.simulate import Fleet
from tests.support.fleets import judge, said_of, small_fleet

EXAMPLES = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 2
Post = Callable[[Sequence[bytes]], None]
FIXTURES = settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NOBODY = -1
OF_A_CACHE = {"prefix_tainted", "prefix_unattributed", "prefix_unvouched"}


def hold_against_content(store: Queries, fleet: Fleet, answers: dict[int, dict[str, Any]]) -> None:
    """No affected response is clean, no other is a violation, nothing is unknown but what read a tainted prefix, and
    each foreign slot's owner is the true one."""
    rids = {job.rid_digest.hex(): job.index for job in fleet.jobs}
    for job in fleet.jobs:
        truth, answer = fleet.truth.affected.get(job.index), answers[job.index]
        shown = (job.index, answer["verdict"], answer["reasons"], answer["rules"], truth)
        if truth is None:
            assert answer["verdict"] == "clean", shown
            continue
        if answer["verdict"] == "unknown":
            assert truth.derived, shown
            assert not len(truth.foreign), shown
            assert set(answer["reasons"]) <= OF_A_CACHE, shown
            continue
        assert answer["verdict"] == "violation", shown
        true = {(page, slot): owner for page, slot, _, owner in truth.foreign.tolist()}
        said = {where: part for where, part in said_of(store, job).items() if where[0] != UNKNOWN_PAGE}
        assert true.keys() == said.keys(), shown
        for where, owner in true.items():
            if said[where]["scope"] != "unattributed":
                named = rids[said[where]["donor_rid"]] if said[where]["donor_rid"] else NOBODY
                assert named == owner, (shown, where, said[where])


@FIXTURES
@given(seed=st.integers(0, 999), lifo=st.booleans())
def test_a_fleet_without_faults_is_clean(store: Queries, post: Post, seed: int, lifo: bool) -> None:
    run = small_fleet(seed, lifo=lifo)
    assert not run.fleet.truth.affected
    post(run.bodies)
    hold_against_content(store, run.fleet, judge(store, run.fleet))


@FIXTURES
@given(seed=st.integers(0, 999), lifo=st.booleans())
def test_a_chunk_that_lands_late_accuses_nobody_else(store: Queries, post: Post, seed: int, lifo: bool) -> None:
    """Who read before a chunk had landed is not found by the rules in force: the chunk was queued, and did land."""
    run = small_fleet(seed, lifo=lifo, injections=parse("commit_before_arrival:0.2"))
    post(run.bodies)
    answers = judge(store, run.fleet)
    others = [answers[job.index]["verdict"] for job in run.fleet.jobs if job.index not in run.fleet.truth.affected]
    assert set(others) <= {"clean"}


@FIXTURES
@given(seed=st.integers(0, 999))
def test_restarts_of_nodes_leave_no_doubt_and_crashes_only_about_who_was_inside(
    store: Queries, post: Post, seed: int
) -> None:
    run = small_fleet(seed, restarts=2, crashes=1)
    post(run.bodies)
    answers = judge(store, run.fleet)
    unsure = {reason for answer in answers.values() for reason in answer["reasons"]}
    assert {answer["verdict"] for answer in answers.values()} <= {"clean", "unknown"}
    assert unsure <= {"decode_leg_never_ended", "prefill_leg_never_ended"} | OF_A_CACHE


@FIXTURES
@given(seed=st.integers(0, 999))
def test_what_was_put_aside_is_never_called_wrongly(store: Queries, post: Post, seed: int) -> None:
    run = small_fleet(seed, retracts=0.3, injections=parse("reject_placeholder,short_transfer:0.1"))
    post(run.bodies)
    answers = judge(store, run.fleet)
    for job in run.fleet.jobs:
        wrong = "clean" if job.index in run.fleet.truth.affected else "violation"
        assert answers[job.index]["verdict"] != wrong, (job.index, answers[job.index])


@pytest.mark.parametrize("fault", ["reject_placeholder", "short_transfer:0.2", "abort_continue:0.2"])
@FIXTURES
@given(seed=st.integers(0, 999), lifo=st.booleans())
def test_verdicts_and_donors_are_the_content(store: Queries, post: Post, fault: str, seed: int, lifo: bool) -> None:
    run = small_fleet(seed, lifo=lifo, injections=parse(fault))
    post(run.bodies)
    hold_against_content(store, run.fleet, judge(store, run.fleet))


@pytest.mark.parametrize(
    ("seed", "fault"),
    [
        (2, "short_transfer:0.2"),  # a chunk in the middle was lost, and the ones behind it came
        (9652, "abort_continue:0.2"),  # one had reserved cached pages, and failed before it read
    ],
)
def test_fleets_that_once_were_judged_wrongly(store: Queries, post: Post, seed: int, fault: str) -> None:
    run = small_fleet(seed, injections=parse(fault))
    post(run.bodies)
    hold_against_content(store, run.fleet, judge(store, run.fleet))
