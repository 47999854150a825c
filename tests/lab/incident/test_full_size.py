"""The incident at its real size: prompts of up to a million tokens, 155 of them customers', whatever the seed."""

from __future__ import annotations

import pytest

from lab.engine.progress import say_nothing
from lab.incident.run import run
from lab.incident.scenario import AFFECTED, FEWEST, LEFT_OUT, MODEL, POOL, SEEDS, fleets
from tests.lab.incident.losses import hold_with_losses, losing, unknown_in
from tests.support.stores import fresh_store

LOST = 0.01
EACH = [
    pytest.param(SEEDS[0], marks=pytest.mark.slow),
    *(pytest.param(seed, marks=pytest.mark.incident) for seed in SEEDS[1:]),  # too long for `make test-slow`
]


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", EACH)
def test_the_answer_is_155_and_exactly_the_true_set(seed: int) -> None:
    with fresh_store() as store:
        result = run(store, *fleets(seed, FEWEST), say_nothing)
        neighbours = store.handle().rows(
            "SELECT count() AS named FROM responses WHERE verdict = 'violation' AND model != {model:String}",
            {"model": MODEL},
        )
    figures = result.figures()
    assert result.right
    assert (figures["affected"], figures["truth"], figures["false"], figures["missed"]) == (AFFECTED, AFFECTED, 0, 0)
    assert figures["excluded"] == LEFT_OUT
    assert result.min_input_tokens > POOL
    assert neighbours[0]["named"] == 0


@pytest.mark.incident
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("loss_seed", [1, 2])
def test_with_one_in_a_hundred_batches_lost_nothing_is_false_and_what_is_missed_unknown(loss_seed: int) -> None:
    kept: list[bytes] = []
    with fresh_store() as store:
        result = run(store, *fleets(SEEDS[0], FEWEST), say_nothing, losing(loss_seed, LOST, kept))
        unknown = unknown_in(store)
    hold_with_losses(result, unknown, kept)
