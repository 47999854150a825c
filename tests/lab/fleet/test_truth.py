"""Truth out of content: foreign, derived, and right although somebody else computed it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.fleet.faults import parse
from lab.fleet.job import Job
from lab.fleet.pages import PagePool
from lab.fleet.spec import FleetSpec
from lab.fleet.truth import ResponseTruth, Truth
from lab.fleet.workload import Workload, make
from tests.support.fleets import small_fleet

SIZE = 4
PREFIX = 8


@pytest.fixture(scope="module")
def workload() -> Workload:
    """Two requests of one tenant that begin with eight tokens of one preamble."""
    drawn = make(FleetSpec(seed=1, requests=2))
    return replace(drawn, parent=np.array([2, 2]), shared=np.array([PREFIX, PREFIX]))


class Reader:
    """Request 1 with pages 2, 3, 4 of a pool in which request 0 has pages 0 and 1."""

    def __init__(self, workload: Workload) -> None:
        self.pool = PagePool(8, SIZE, lifo=False)
        self.truth = Truth(workload)
        self.job = Job(1, "rid", 1, bytes(16), 0, prompt=12, output=2)
        self.job.decode_pages = np.array([2, 3, 4], np.int32)

    def reads(self) -> ResponseTruth:
        self.truth.observe(self.job, self.pool, 12)
        return self.truth.affected.get(1, ResponseTruth())


def test_its_own_content_is_right(workload: Workload) -> None:
    reader = Reader(workload)
    reader.pool.write(reader.job.decode_pages, 0, 12, reader.job.number, tainted=False)
    assert not reader.reads().affected


def test_what_nobody_wrote_is_foreign_and_nobodys(workload: Workload) -> None:
    reader = Reader(workload)
    reader.pool.write(reader.job.decode_pages, 0, 10, reader.job.number, tainted=False)
    assert reader.reads().foreign.tolist() == [[4, 2, -1, -1], [4, 3, -1, -1]]


def test_a_prefix_that_prefill_had_cached_is_right_up_to_where_tokens_are_shared(workload: Workload) -> None:
    reader = Reader(workload)
    reader.pool.write(reader.job.decode_pages, 0, 12, 1, tainted=False)
    reader.pool.placed[[2, 3, 4]] = reader.job.number
    reader.job.prefill_cached = 12
    assert [(page, slot) for page, slot, *_ in reader.reads().foreign.tolist()] == [(4, slot) for slot in range(SIZE)]


def test_the_same_tokens_that_were_not_sent_to_it_are_foreign(workload: Workload) -> None:
    reader = Reader(workload)
    reader.pool.write(reader.job.decode_pages, 0, 12, 1, tainted=False)
    reader.job.prefill_cached = 12
    assert len(reader.reads().foreign) == 12


def test_tainted_pages_out_of_a_cache_make_it_derived_and_taint_it(workload: Workload) -> None:
    reader = Reader(workload)
    reader.pool.write(reader.job.decode_pages, 0, PREFIX, 1, tainted=True)
    reader.pool.write(reader.job.decode_pages, PREFIX, 12, reader.job.number, tainted=False)
    reader.job.reused = PREFIX
    said = reader.reads()
    assert said.derived
    assert not len(said.foreign)
    assert reader.job.tainted


def test_foreign_pages_out_of_a_cache_are_kept_apart(workload: Workload) -> None:
    reader = Reader(workload)
    reader.pool.write(reader.job.decode_pages, 4, 12, reader.job.number, tainted=False)
    reader.job.reused = PREFIX
    said = reader.reads()
    assert (len(said.foreign), len(said.through_cache), said.derived) == (0, SIZE, True)


@pytest.mark.parametrize("fault", ["reject_placeholder", "short_transfer:0.3", "abort_continue:0.3"])
def test_every_fault_makes_responses_read_what_is_not_theirs(fault: str) -> None:
    assert any(len(one.foreign) for one in small_fleet(3, injections=parse(fault)).fleet.truth.affected.values())


@pytest.mark.parametrize("fault", ["commit_before_arrival:0.3", "landed_said_too_soon:0.3"])
def test_a_late_chunk_is_read_before_it_is_there(fault: str) -> None:
    truth = small_fleet(3, injections=parse(fault)).fleet.truth
    assert any(len(one.foreign) for one in truth.affected.values())


def test_what_is_put_aside_or_restarted_reads_nothing_foreign() -> None:
    assert not small_fleet(5, retracts=0.5, restarts=2, crashes=1).fleet.truth.affected


@pytest.mark.parametrize("seed", [2, 5])
def test_what_is_under_way_when_prefill_crashes_never_lands(seed: int) -> None:
    """Nobody waits for ever for a chunk of a process that is gone."""
    fleet = small_fleet(seed, restarts=2, crashes=2, injections=parse("commit_before_arrival:0.9")).fleet
    assert {job.landings for job in fleet.jobs} == {0}


def test_a_request_does_not_wait_for_ever_for_what_it_keeps_itself() -> None:
    """It had found the beginning of a cached entry, and the rest of that entry was what it lacked."""
    assert len(small_fleet(619, retracts=0.5).fleet.jobs) == 30
