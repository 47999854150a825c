"""Verdicts about a fleet whose telemetry is damaged: never clean for an affected response, never a violation for
another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.pages import UNKNOWN_PAGE
from detectors.queries import Queries
from lab.fleet.damage import Damage, damaged, parse
from lab.fleet.faults import parse as parse_faults
from tests.support.fleets import judge, said_of, small_fleet

Post = Callable[[Sequence[bytes]], None]
EXAMPLES = 40 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 1
SEEN_FAULTS = "reject_placeholder,short_transfer:0.15,abort_continue:0.15"
HARMLESS = "duplicates:0.5,rebatched:0.5,delayed:0.5,reordered"
KINDS = st.sampled_from(
    ["lost:0.15", "crash_tail", "silent_emitter", "silent_node", HARMLESS, f"lost:0.1,crash_tail,{HARMLESS}"]
)


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 999), damage_seed=st.integers(0, 99), kind=KINDS, lifo=st.booleans())
def test_no_loss_makes_a_verdict_wrong(
    store: Queries, post: Post, seed: int, damage_seed: int, kind: str, lifo: bool
) -> None:
    run = small_fleet(seed, lifo=lifo, injections=parse_faults(SEEN_FAULTS), crashes=1, restarts=1)
    post([body.data for body in damaged(run.posted, parse(kind), damage_seed)])
    answers, affected = judge(store, run.fleet), run.fleet.truth.affected
    for job in run.fleet.jobs:
        answer = answers.get(job.index, {"verdict": "never seen"})
        truth = affected.get(job.index)
        assert answer["verdict"] != ("violation" if truth is None else "clean"), (job.index, answer, truth)
        if truth is not None:
            slots = {(page, slot) for page, slot, *_ in truth.foreign.tolist()}
            owners = {(page, slot): owner for page, slot, _, owner in truth.foreign.tolist()}
            rids = {one.rid_digest.hex(): one.index for one in run.fleet.jobs}
            for where, part in said_of(store, job).items():
                if where[0] != UNKNOWN_PAGE and where in slots and part["donor_rid"]:
                    assert rids[part["donor_rid"]] == owners[where], (job.index, where, part)


def test_damage_that_loses_nothing_keeps_every_body_of_the_fleet() -> None:
    posted = small_fleet(2).posted
    left = damaged(posted, parse("duplicates:0.5,delayed:0.5,reordered"), 4)
    assert not Counter(body.data for body in posted) - Counter(body.data for body in left)
    assert len(left) > len(posted)


def test_a_silent_host_is_not_heard_after_some_time() -> None:
    posted = small_fleet(2, flush_seconds=0.5, heartbeat_seconds=1.0).posted
    left = damaged(posted, [Damage("silent_node", 1)], 4)
    missing = [body for body in posted if body not in left]
    assert len({body.emitter.partition("/")[0] for body in missing}) == 1


@pytest.mark.parametrize("kind", ["lost:0.3", "silent_emitter:2", HARMLESS])
def test_the_same_seed_does_the_same_damage(kind: str) -> None:
    posted = small_fleet(2).posted
    assert damaged(posted, parse(kind), 4) == damaged(posted, parse(kind), 4)
