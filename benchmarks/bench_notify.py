"""How long questions take, and how that grows with the responses in the store.

A store of so many judged responses, made in the engine: 200 tenants, the largest with one response in six, 0.1 to 5 %
of each affected, every second response with an earlier verdict. `query` is the time inside the store for all that an
answer asks, the median of several; `answer` is the whole answer in the service; `command` is `notify affected` from the
start of its process to its end, against a running service. An incident is defined over everything there is. With
BENCH_MILLIONS=1 in the environment there is a store of 3 million as well, which takes some ten minutes. The goals are
200 ms of query time for a tenant, 1 s for the command and 20 s for a new definition.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.notify_store import DAYS, KEY, START, fill, tenant_names
from collector.store import Handle, open_store
from detectors.queries import Row
from lab.service import ServiceProcess
from notify.answers import DEFAULT_SCOPES
from notify.desk import TenantDesk
from notify.incidents.answers import Change
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from notify.question import Span

TITLE = "Questions"
SIZES = (30_000, 300_000, *((3_000_000,) if os.environ.get("BENCH_MILLIONS") else ()))
LARGEST, MIDDLING, SMALLEST = 0, 20, 199
TENANT_GOAL, COMMAND_GOAL, DEFINITION_GOAL = 200.0, 1000.0, 20_000.0
GOALS: dict[str, float] = {}
"""By name of a row; filled as rows are made, which are named after the sizes."""


class Timed:
    """A handle that adds up the seconds that the store takes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.seconds = 0.0

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """As the handle's."""
        began = time.perf_counter()
        rows = self._handle.rows(sql, params)
        self.seconds += time.perf_counter() - began
        return rows

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """As the handle's."""
        self._handle.insert(table, columns, rows)

    def command(self, sql: str) -> None:
        """As the handle's."""
        self._handle.command(sql)


def run() -> dict[str, dict[str, float]]:
    """Milliseconds of each question, by size."""
    rows: dict[str, dict[str, float]] = {}
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            # The engine opens one directory a process, and the service is to open this one.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                asked = pool.apply(in_process, (folder, size))
            settings = {"PAGEWITNESS_PSEUDONYM_KEYS": f"{KEY.id}:{KEY.secret.hex()}"}
            with ServiceProcess(Path(folder), detect_every=3600, settings=settings) as service:
                command = _command(service.data_dir, tenant_names()[LARGEST])
        rows |= {f"{name}, of {size:,}": figures for name, figures in asked.items()}
        GOALS.update(
            {f"{name}, of {size:,}": TENANT_GOAL for name in asked if "tenant" in name and "incident" not in name}
        )
        GOALS[f"an incident defined, of {size:,}"] = DEFINITION_GOAL
        rows[f"the command, largest tenant, of {size:,}"] = {"command (ms)": command}
        GOALS[f"the command, largest tenant, of {size:,}"] = COMMAND_GOAL
    return rows


def in_process(folder: str, size: int) -> dict[str, dict[str, float]]:
    """Fill a store, and ask it."""
    with open_store(Path(folder)) as store:
        handle = store.handle()
        fill(handle, size)
        timed = Timed(handle)
        desk = TenantDesk(timed, [KEY], [])
        incidents = IncidentDesk(timed, lambda name: desk.scope_of(name)[0], TenantNames(None, [KEY]))
        named = tenant_names()
        ever, two_days = Span(), Span(START + timedelta(days=3), START + timedelta(days=5))

        def tenant(number: int, window: Span = ever) -> Callable[[], object]:
            return lambda: desk.recipient(named[number], window, DEFAULT_SCOPES)

        end = f"{START + timedelta(days=DAYS + 1):%Y-%m-%d}"
        everything = Change.model_validate({"from": f"{START:%Y-%m-%d}", "to": end})
        shorter = Change.model_validate({"to": f"{START + timedelta(days=20):%Y-%m-%d}"})
        rows = {
            "largest tenant": _asked(timed, tenant(LARGEST)),
            "largest tenant, two days": _asked(timed, tenant(LARGEST, two_days)),
            "middling tenant": _asked(timed, tenant(MIDDLING)),
            "smallest tenant": _asked(timed, tenant(SMALLEST)),
            "largest tenant as donor": _asked(timed, lambda: desk.donor(named[LARGEST], ever, DEFAULT_SCOPES)),
            "an incident defined": _asked(timed, lambda: incidents.define("all", everything), times=1),
            "an incident affected": _asked(timed, lambda: incidents.affected("all"), times=1),
            "an incident previewed": _asked(timed, lambda: incidents.preview("all", shorter), times=1),
        }
        about = incidents.book.get("all")
        window, scopes = about.definition.window, about.definition.scopes
        rows["largest tenant of the incident"] = _asked(
            timed, lambda: desk.recipient(named[LARGEST], window, scopes, about), times=1
        )
        return rows


def _asked(timed: Timed, ask: Callable[[], object], times: int = 5) -> dict[str, float]:
    """Medians in ms; asked once before it counts, where it is asked more than once."""
    if times > 1:
        ask()
    queries, answers = [], []
    for _ in range(times):
        timed.seconds, began = 0.0, time.perf_counter()
        ask()
        answers.append(time.perf_counter() - began)
        queries.append(timed.seconds)
    return {"query (ms)": median(queries) * 1000, "answer (ms)": median(answers) * 1000}


def _command(data_dir: Path, tenant: str, times: int = 5) -> float:
    """Median wall time in ms of the command's process, asking the service on this directory."""
    command = [sys.executable, "-m", "notify", "affected", "--tenant", tenant, "--data-dir", str(data_dir)]
    took = []
    for _ in range(times):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False)
        took.append(time.perf_counter() - began)
        if done.returncode not in (0, 3, 4):
            raise RuntimeError(done.stderr.decode())
    return median(took) * 1000


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.exit(main(["bench_notify"]))
