"""What the scenario is, whatever the seed: its sizes, how many prompts do not fit, when, and whose they are."""

from __future__ import annotations

import numpy as np
import pytest

from lab.fleet.clock import SECOND
from lab.fleet.workload import TRAFFIC, make
from lab.incident.scenario import AFFECTED, AFTER, BEGIN, CONTEXT, CORRECTED, FEWEST, LEFT_OUT, OPENED, fleets


def test_the_sizes_are_those_of_the_real_one() -> None:
    affected, _ = fleets(1, 50_000)
    assert (affected.prefill_pages * affected.page_size, affected.page_size) == (681_280, 64)
    assert (CONTEXT, AFFECTED) == (1_048_576, 155)
    assert max(one.longest for one in affected.planted) + affected.traffic.longest_output <= CONTEXT


@pytest.mark.parametrize("seed", [1, 7, 23, 101, 4_711])
@pytest.mark.parametrize("requests", [FEWEST, 50_000])
def test_so_many_prompts_do_not_fit_whatever_the_seed(seed: int, requests: int) -> None:
    affected, neighbour = fleets(seed, requests)
    work = make(affected)
    long = work.prompt > affected.prefill_limit
    corrected = int((CORRECTED - BEGIN).total_seconds()) * SECOND
    before = long & (work.arrival < corrected)
    labels = {label: int(np.count_nonzero(before & (work.traffic == TRAFFIC.index(label)))) for label in TRAFFIC}
    assert labels == {"customer": AFFECTED, **LEFT_OUT}
    assert np.count_nonzero(long & ~before) == AFTER
    assert (work.prompt[long] > 681_280).all()
    assert (work.arrival[long] >= int((OPENED - BEGIN).total_seconds()) * SECOND).all()
    assert (work.output[long] >= 2).all()  # an answer of one token reads nothing
    assert len(set(work.tenant[work.traffic == TRAFFIC.index("researcher")].tolist())) == 1
    assert len(set(work.tenant[before].tolist())) > 20
    assert make(neighbour).prompt.max() <= neighbour.prefill_limit


def test_both_models_share_the_requests_out() -> None:
    assert [one.requests for one in fleets(1, 50_000)] == [45_000, 5_000]
