"""Requests that a fleet is told to have, in number, label, time and length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.fleet.clock import SECOND
from lab.fleet.spec import FleetSpec, Planted, TrafficSpec
from lab.fleet.workload import TRAFFIC, make

PLANTED = (Planted(7, "researcher", 100.0, 200.0, 10_000, 12_000), Planted(5, "customer", 100.0, 200.0, 10_000, 12_000))
SPEC = FleetSpec(seed=3, requests=2_000, planted=PLANTED, traffic=TrafficSpec(per_second=8.0))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_they_are_there_in_number_whatever_the_seed(seed: int) -> None:
    work = make(replace(SPEC, seed=seed))
    long = work.prompt >= 10_000
    for one in PLANTED:
        mine = long & (work.traffic == TRAFFIC.index(one.traffic))
        assert np.count_nonzero(mine) == one.count
        assert (work.arrival[mine] >= one.start * SECOND).all()
        assert (work.arrival[mine] < one.end * SECOND).all()
        assert (work.prompt[mine] <= one.longest).all()
        assert (work.patience[mine] == -1).all()


def test_more_than_arrive_in_their_time_are_refused() -> None:
    spec = replace(SPEC, planted=(Planted(500, "customer", 0.0, 1.0, 10_000, 12_000),))
    with pytest.raises(ValueError, match="500 planted requests do not fit"):
        make(spec)


def test_a_decode_pool_must_hold_the_longest_of_them() -> None:
    with pytest.raises(ValueError, match="must hold the longest prompt"):
        replace(SPEC, planted=(Planted(1, "customer", 0.0, 100.0, 10_000, 40_000),))
