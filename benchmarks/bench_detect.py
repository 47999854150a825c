"""What it costs to judge a request: one pass of detection over so many joined requests, all evidence in.

CPU time of the whole process, the engine's threads included, divided by the requests. The floor is the one query that
every pass cannot do without, the roll-up of the facts of the same legs. One request in twenty is affected, far more
than in life: only those need the history of their pages. `nothing new` is a pass that finds no new fact, in all.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from time import process_time

from collector.store import Store, open_store
from detectors.legs import legs_by_uid
from detectors.runner import Runner
from tests.support.otlp import export
from tests.support.toy_pair import Ask, ToyPair

TITLE = "Detection"
SIZES = (200, 800, 2_400)
TENANTS = [letter * 32 for letter in "0123456789abcdef"]


def run() -> dict[str, dict[str, float]]:
    """CPU microseconds a request for each size, and a pass over nothing."""
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            with open_store(Path(folder), database=f"of_{size}") as store:
                uids = _fill(store, size)
                handle = store.handle()
                legs_by_uid(handle, uids[:2])  # whatever the first query costs
                began = process_time()
                legs_by_uid(handle, uids)
                floor = (process_time() - began) / size * 1e6
                began = process_time()
                report = Runner(handle).run_once()
                spent = (process_time() - began) / size * 1e6
                if report.judged != size:
                    raise RuntimeError(f"{report.judged} of {size} requests were judged")
                rows[f"roll-up alone (floor), {size:,} requests"] = {"us CPU": floor, "times the floor": 1.0}
                rows[f"a pass, {size:,} requests"] = {"us CPU": spent, "times the floor": spent / floor}
                began = process_time()
                Runner(handle).run_once()
                rows[f"nothing new, {size:,} requests there"] = {"us CPU": (process_time() - began) * 1e6}
    return rows


def _fill(store: Store, size: int) -> list[str]:
    """Requests of a toy pair, one in twenty too long for its prefill pool; returns the uids of all legs."""
    pair = ToyPair(f"bench-{size}", prefill_pages=64, decode_pages=256)
    draw = random.Random(size)
    asks = [
        Ask(f"r{number}", draw.choice(TENANTS), 260 if number % 20 == 19 else draw.randint(20, 200), 8)
        for number in range(size)
    ]
    pair.run(asks, draw, at_once=3)
    pair.close()
    facts = pair.facts
    for start in range(0, len(facts), 2_000):
        store.insert_otlp(export(*facts[start : start + 2_000]))
    return sorted({fact.uid for fact in facts if "pagewitness.leg.ordinal" in fact.attributes})


if __name__ == "__main__":
    import sys

    from benchmarks.__main__ import main

    sys.exit(main(["bench_detect"]))
