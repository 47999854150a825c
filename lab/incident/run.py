"""The scenario from its first request to its answer: simulated, stored, judged, and asked about.

The store is the real one, and the question is asked where `notify incident` asks it.
"""

from __future__ import annotations

from pathlib import Path

from collector.store import Store
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from lab.engine.progress import Say
from lab.fleet.simulate import Fleet, Simulation
from lab.fleet.spec import FleetSpec
from lab.fleet.workload import PSEUDONYM_KEY, tenant_name
from lab.incident.feed import PASS, Feed, Keep, keep_all
from lab.incident.held import Result, Truth, shortest_prompt
from lab.incident.scenario import ENDS, LEFT_OUT, OPENED
from lab.progress import counted
from notify.incidents.answers import Change
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from notify.scope import TenantScope

NAME, EVERYBODYS = "oversized-prompts", "oversized-prompts-everybody"
"""The incident, and the same with nobody's traffic left out."""
NAMES_FILE = "tenants.txt"
"""In the store's folder: the tenants' names, for the operator's views."""


def run(
    store: Store, affected: FleetSpec, neighbour: FleetSpec, say: Say, keep: Keep = keep_all, judge_every: int = PASS
) -> Result:
    """Both fleets run, are judged and asked about, in this store, which holds nothing yet. A pass of detection for
    about so many requests."""
    runner = Runner(store.handle(), DetectionSettings())
    # The neighbour first: old evidence that comes late would have every violation judged anew.
    _run_fleet(store, runner, neighbour, say, keep, judge_every)
    fleet = _run_fleet(store, runner, affected, say, keep, judge_every)
    say("asking who was affected")
    return _ask(store, fleet, affected.requests + neighbour.requests)


def _run_fleet(store: Store, runner: Runner, spec: FleetSpec, say: Say, keep: Keep, judge_every: int) -> Fleet:
    with counted(f"requests of {spec.model}", spec.requests, say) as (tell, show):
        feed = Feed(store, runner, spec, show, keep, judge_every)
        fleet = Simulation(spec, feed.take, tell, brief=True).run()
        feed.finish()
    return fleet


def _ask(store: Store, fleet: Fleet, requests: int) -> Result:
    """Ask as `notify incident` does."""
    handle = store.handle()
    names = _write_names(store.data_dir / NAMES_FILE, fleet.spec.traffic.tenants)
    desk = IncidentDesk(handle, lambda name: TenantScope.of(name, [PSEUDONYM_KEY]), TenantNames(names, [PSEUDONYM_KEY]))
    window = {"from": OPENED.isoformat(), "to": ENDS.isoformat()}
    desk.define(EVERYBODYS, Change.model_validate(window))
    desk.define(NAME, Change.model_validate(window | {"exclude_traffic": list(LEFT_OUT)}))
    answer = desk.affected(NAME)
    everybodys = desk.affected(EVERYBODYS)
    return Result(answer, everybodys, Truth.of(fleet), fleet.spec, shortest_prompt(handle, answer), requests)


def _write_names(path: Path, tenants: int) -> Path:
    path.write_text("".join(f"{tenant_name(number)}\n" for number in range(tenants)), encoding="utf-8")
    return path
