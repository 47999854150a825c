"""Small fleets for tests: run one, post it, judge it, and hold each answer against the content."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from detectors.queries import Queries
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from lab.fleet.agent import Posted
from lab.fleet.held import Held, answers_about, hold
from lab.fleet.job import Job
from lab.fleet.simulate import Fleet, run_fleet
from lab.fleet.spec import START, FleetSpec, TrafficSpec

SMALL = TrafficSpec(
    tenants=5,
    per_second=12.0,
    typical_prompt=30,
    longest_prompt=220,
    typical_output=12,
    longest_output=40,
    preamble=24,
    aborts=0.1,
)
"""Prompts of which some are longer than the prefill pool of SHAPE."""

SHAPE: dict[str, Any] = {
    "requests": 30,
    "prefill_pages": 40,
    "decode_pages": 90,
    "page_size": 4,
    "chunk_tokens": 32,
    "traffic": SMALL,
    "flush_seconds": 20.0,
    "heartbeat_seconds": 20.0,
}

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Run:
    """A fleet that has run, and what its agents posted."""

    fleet: Fleet
    posted: list[Posted]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies, in the order of posting."""
        return [body.data for body in self.posted]


def small_fleet(seed: int = 1, **fields: Any) -> Run:
    """Run a small fleet. No two in one process have an id in common, or run at the same time."""
    number = next(_numbers)
    named = {"name": f"test-{number}", "start": START + timedelta(hours=number)}
    posted: list[Posted] = []
    fleet = run_fleet(FleetSpec(seed=seed, **(SHAPE | named | fields)), posted.append)
    return Run(fleet, posted)


def judge(store: Queries, fleet: Fleet) -> dict[int, dict[str, Any]]:
    """The newest answer about each request's response, by request; of one that was put aside, of its last leg."""
    Runner(store, DetectionSettings()).run_once()
    uids = {job.leg_uids[-1].hex(): job.index for job in fleet.jobs if job.leg_uids}
    rows = store.rows("SELECT * FROM responses WHERE response_uid IN {uids:Array(String)}", {"uids": list(uids)})
    return {uids[row["response_uid"]]: row for row in rows}


def held_against(store: Queries, fleet: Fleet, *, full_evidence: bool = True) -> Held:
    """Judge, and hold each answer against the content."""
    judge(store, fleet)
    return hold(fleet, *answers_about(store, fleet), full_evidence=full_evidence)


def said_of(store: Queries, job: Job) -> dict[tuple[int, int], dict[str, Any]]:
    """What the answer says of each foreign slot that the response read, by (page, slot)."""
    ranges = store.rows(
        "SELECT * FROM foreign_ranges WHERE response_uid = {uid:String}", {"uid": job.leg_uids[-1].hex()}
    )
    return {(part["page"], slot): part for part in ranges for slot in range(part["slot_start"], part["slot_end"])}
