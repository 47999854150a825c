"""The scenario from its first request to its answer: simulated, stored, judged, and asked about.

The store is the real one, and the question is asked where `notify incident` asks it. What is true comes from the
content of the simulated pools.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collector.store import Store, open_store
from detectors.queries import Row
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from lab.engine.progress import Say
from lab.fleet.agent import Posted
from lab.fleet.job import Job
from lab.fleet.simulate import Fleet, run_fleet
from lab.fleet.workload import PSEUDONYM_KEY, TRAFFIC
from lab.incident.scenario import ENDS, LEFT_OUT, MODEL, OPENED, fleets
from notify.incidents.answers import Change, IncidentAffectedAnswer
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from notify.scope import TenantScope

NAME = "oversized-prompts"

Rows = Callable[[str], list[Row]]

Keep = Callable[[Posted], bool]
"""Whether a body reaches the store: what does not is lost telemetry."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer beside the truth. Ids are those of responses."""

    answer: IncidentAffectedAnswer
    fleets: tuple[Fleet, ...]
    affected: frozenset[str]  # named by the answer, derived ones apart
    truth: frozenset[str]
    unknown: frozenset[str]  # of the whole window
    min_input_tokens: int
    excluded: dict[str, int]

    def figures(self) -> dict[str, object]:
        """What `make incident` prints."""
        return {
            "affected": len(self.affected),
            "truth": len(self.truth),
            "false": len(self.affected - self.truth),
            "missed": len(self.truth - self.affected),
            "unknown": len(self.unknown),
            "derived": self.answer.derived,
            "min_input_tokens": self.min_input_tokens,
            "excluded": self.excluded,
            "requests": sum(fleet.spec.requests for fleet in self.fleets),
        }

    @property
    def right(self) -> bool:
        """Whether the answer names exactly the truth."""
        return self.affected == self.truth


def run(seed: int, requests: int, say: Say, keep: Keep = lambda body: True) -> Result:
    """The scenario from its first request to its answer, in a store of its own that is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="pagewitness-incident-") as folder, open_store(Path(folder)) as store:
        return run_in(store, seed, requests, say, keep)


def run_in(store: Store, seed: int, requests: int, say: Say, keep: Keep = lambda body: True) -> Result:
    """The same in this store, which holds nothing yet."""
    done = []
    for spec in fleets(seed, requests):
        say(f"simulating {spec.requests} requests of {spec.model}")
        posted: list[Posted] = []
        done.append(run_fleet(spec, posted.append))
        kept = [body for body in posted if keep(body)]
        say(f"storing {len(kept)} bodies")
        for body in kept:
            store.insert_otlp(body.data)
        store.handle().command("OPTIMIZE TABLE evidence")
    handle = store.handle()
    say("judging every response")
    report = Runner(handle, DetectionSettings()).run_once()
    say(f"judged {report.judged} responses in {report.seconds:.0f} s; asking the question")
    desk = IncidentDesk(handle, _scope_of, TenantNames(None, [PSEUDONYM_KEY]))
    window = {"from": OPENED.isoformat(), "to": ENDS.isoformat(), "models": [MODEL], "scopes": ["cross_tenant"]}
    desk.define(NAME, Change.model_validate(window | {"exclude_traffic": list(LEFT_OUT)}))
    return _held_against(tuple(done), desk.affected(NAME), handle.rows)


def _held_against(done: tuple[Fleet, ...], answer: IncidentAffectedAnswer, rows: Rows) -> Result:
    (fleet, *_neighbours) = done
    true = [job for job in fleet.jobs if _read_anothers(fleet, job)]
    customers = frozenset(_uid(job) for job in true if TRAFFIC[job.traffic] == "customer")
    excluded = {label: sum(TRAFFIC[job.traffic] == label for job in true) for label in LEFT_OUT}
    named = [row for row in answer.responses if not row.derived]
    unknown = rows("SELECT response_uid FROM responses WHERE verdict IN ('unknown', 'pending')")
    told = {row.what: row.violations for row in answer.left_out if row.by == "traffic"}
    return Result(
        answer,
        done,
        frozenset(row.response_id for row in named),
        customers,
        frozenset(row["response_uid"] for row in unknown),
        min((job.prompt for job in true), default=0),
        {label: min(count, told.get(label, 0)) for label, count in excluded.items()},
    )


def _uid(job: Job) -> str:
    return job.leg_uids[-1].hex()


def _read_anothers(fleet: Fleet, job: Job) -> bool:
    """Whether the response read, itself, KV of another tenant: by the content of the pool."""
    truth = fleet.truth.affected.get(job.index)
    if truth is None:
        return False
    owners = {owner for owner in truth.foreign[:, 3].tolist() if owner >= 0}
    return any(fleet.jobs[owner].tenant != job.tenant for owner in owners)


def _scope_of(name: str) -> TenantScope:
    return TenantScope.of(name, [PSEUDONYM_KEY])
