"""The incident on two small fleets, in seconds: some prompts are longer than the prefill pool of one of them.

python -m tests.support.incidents DATA_DIR
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from collector.store import Store, open_store
from lab.engine.progress import Say, say_nothing
from lab.fleet.faults import Injection
from lab.fleet.spec import START, FleetSpec, Planted
from lab.incident.feed import PASS, Keep, keep_all
from lab.incident.held import Result
from lab.incident.run import run
from tests.repo.tree import ROOT
from tests.support.fleets import SHAPE, SMALL

CUSTOMERS, INTERNAL, RESEARCHER = 9, 2, 3
"""Prompts that are longer than the pool, by label."""

_numbers = itertools.count(1)
_POOL = SHAPE["prefill_pages"] * SHAPE["page_size"]


def small_incident(seed: int = 1, slower: float = 1.0, **fields: Any) -> tuple[FleetSpec, FleetSpec]:
    """The affected fleet and its neighbour. No two in one process run at the same time. `slower`: everything is asked
    so many times further apart; `fields` are of the affected fleet."""
    number = next(_numbers)
    start = START + timedelta(hours=12, minutes=number)
    traffic = replace(SMALL, longest_prompt=_POOL - 20, internal=0.0, researcher=0.0, tenants=8)
    traffic = replace(traffic, per_second=traffic.per_second / slower)
    shape = SHAPE | {"requests": 120, "traffic": traffic, "start": start, "flush_seconds": slower}
    long = (3.0 * slower, 8.0 * slower, _POOL + 1, 300)
    planted = (
        Planted(CUSTOMERS, "customer", *long),
        Planted(INTERNAL, "internal", *long, tenant=6),
        Planted(RESEARCHER, "researcher", *long, tenant=7),
    )
    names = f"small-{number}", f"beside-{number}"
    affected = FleetSpec(
        seed=seed,
        **shape | {"name": names[0], "model": names[0], "planted": planted} | fields,
        injections=(Injection("reject_placeholder"),),
    )
    return affected, FleetSpec(seed=seed + 1, **shape | {"name": names[1], "model": names[1], "requests": 40})


def run_small(
    store: Store, seed: int = 1, keep: Keep = keep_all, judge_every: int = PASS, say: Say = say_nothing
) -> Result:
    """Run it, ask, and hold the answer against the truth."""
    return run(store, *small_incident(seed), say, keep, judge_every)


def store_incident(data_dir: Path) -> list[dict[str, Any]]:
    """The same in a data directory that nobody has open, from a process of its own; minutes apart, and with page
    numbers that are not mistaken for anything else. Gives every fact of a leg: its tenant, ids, emitter, second, pages.
    """
    command = [sys.executable, "-m", "tests.support.incidents", str(data_dir)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    facts: list[dict[str, Any]] = json.loads(done.stdout)
    return facts


_FACTS = (
    "SELECT tenant_id AS tenant, uid, rid, emitter, boot, formatDateTime(time, '%H:%i:%S') AS second,"
    " pages_start AS starts, pages_length AS lengths, transfer_side = 'receive' AS received"
    " FROM facts WHERE leg_ordinal IS NOT NULL"
)

if __name__ == "__main__":
    specs = small_incident(slower=200.0, lifo=True, decode_pages=150_000)  # the last page is taken first
    with open_store(Path(sys.argv[1])) as opened:
        assert run(opened, *specs, say_nothing).right
        print(json.dumps(opened.handle().rows(_FACTS)))
