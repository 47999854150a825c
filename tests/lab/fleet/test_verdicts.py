"""Verdicts about a fleet against the content of its pools, with every fact there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.queries import Queries
from lab.fleet.faults import parse
from lab.fleet.held import Held
from lab.fleet.simulate import Fleet
from tests.support.fleets import held_against, judge, small_fleet

EXAMPLES = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 1
Post = Callable[[Sequence[bytes]], None]
FIXTURES = settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
OF_A_CACHE = {"prefix_tainted", "prefix_unattributed", "prefix_unvouched"}


def right(store: Queries, fleet: Fleet, *, full_evidence: bool = True) -> Held:
    """What was counted of a fleet about which no answer is wrong."""
    held = held_against(store, fleet, full_evidence=full_evidence)
    assert not held.mistakes
    return held


@FIXTURES
@given(seed=st.integers(0, 999), lifo=st.booleans())
def test_a_fleet_without_faults_is_clean(store: Queries, post: Post, seed: int, lifo: bool) -> None:
    run = small_fleet(seed, lifo=lifo)
    assert not run.fleet.truth.affected
    post(run.bodies)
    assert right(store, run.fleet).unknown == 0


@FIXTURES
@given(seed=st.integers(0, 999), lifo=st.booleans())
def test_who_did_not_wait_for_the_word_of_prefill_is_not_clean(
    store: Queries, post: Post, seed: int, lifo: bool
) -> None:
    run = small_fleet(seed, lifo=lifo, injections=parse("commit_before_arrival:0.2"))
    post(run.bodies)
    right(store, run.fleet)
    read_too_soon = [job for job in run.fleet.jobs if job.index in run.fleet.truth.affected]
    answers = judge(store, run.fleet)
    assert {answers[job.index]["verdict"] for job in read_too_soon} <= {"unknown"}


@FIXTURES
@given(seed=st.integers(0, 999))
def test_a_word_that_came_too_soon_accuses_nobody_else(store: Queries, post: Post, seed: int) -> None:
    """The engine itself says what is not so: no rule can see who read before a chunk had landed."""
    run = small_fleet(seed, injections=parse("landed_said_too_soon:0.2"))
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
def test_what_is_put_aside_and_resumed_leaves_no_doubt_but_about_who_reused_it(
    store: Queries, post: Post, seed: int
) -> None:
    run = small_fleet(seed, retracts=0.5)
    post(run.bodies)
    assert right(store, run.fleet).affected == 0


@FIXTURES
@given(seed=st.integers(0, 999))
def test_what_was_put_aside_is_as_good_as_what_it_had_read(store: Queries, post: Post, seed: int) -> None:
    run = small_fleet(seed, retracts=0.3, injections=parse("reject_placeholder,short_transfer:0.1"))
    post(run.bodies)
    right(store, run.fleet)


@pytest.mark.parametrize("fault", ["reject_placeholder", "short_transfer:0.2", "abort_continue:0.2"])
@FIXTURES
@given(seed=st.integers(0, 999), lifo=st.booleans())
def test_verdicts_and_donors_are_the_content(store: Queries, post: Post, fault: str, seed: int, lifo: bool) -> None:
    run = small_fleet(seed, lifo=lifo, injections=parse(fault))
    post(run.bodies)
    right(store, run.fleet)


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
    right(store, run.fleet)
