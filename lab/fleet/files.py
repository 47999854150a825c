"""A fleet's run as the files of a capture, which `lab.replay` can post: bodies, truth, traffic, manifest."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.captures.capture import Body, Capture
from lab.engine.errors import LabError
from lab.fleet.agent import Posted
from lab.fleet.clock import SECOND
from lab.fleet.job import Job
from lab.fleet.simulate import Fleet
from lab.fleet.truth import ResponseTruth, SlotTruth, ranges
from lab.fleet.workload import TRAFFIC, tenant_name

_UNAFFECTED = ResponseTruth()


def check_folder(folder: Path) -> None:
    """Raises LabError unless the folder is empty, or is not there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LabError(f"{folder} is not an empty folder: name one that is not there, or empty it first")


def write(folder: Path, fleet: Fleet, bodies: Sequence[Posted], command: str) -> None:
    """Write the files. The same run gives the same bytes."""
    compressed = tuple(Body(gzip.compress(body.data, 1, mtime=0), "application/x-protobuf", "gzip") for body in bodies)
    affected = fleet.truth.affected
    manifest: dict[str, Any] = {
        "engine": "simulated fleet",
        "command": command,
        "counts": {
            "requests": len(fleet.jobs),
            "readers": fleet.truth.readers,
            "affected": sum(bool(len(one.foreign)) for one in affected.values()),
            "derived": sum(one.derived and not len(one.foreign) for one in affected.values()),
            "bodies": len(bodies),
        },
    }
    tenants = {tenant_name(number): name.hex() for number, name in enumerate(fleet.workload.pseudonyms)}
    traffic = {"tenants": tenants, "posted_seconds": [body.at // SECOND for body in bodies]}
    Capture(folder.name, manifest, compressed, {"responses": responses(fleet)}, traffic).save(folder)


def responses(fleet: Fleet) -> list[dict[str, Any]]:
    """The truth of each response. A range is [page, first slot, one past the last, keyed digest of the request whose KV
    it is]; null stands for nobody: the slot was never written."""
    return [_response(fleet, job, fleet.truth.affected.get(job.index, _UNAFFECTED)) for job in fleet.jobs]


def _response(fleet: Fleet, job: Job, truth: ResponseTruth) -> dict[str, Any]:
    return {
        "rid": job.rid_digest.hex(),
        "legs": [uid.hex() for uid in job.leg_uids],
        "tenant": job.tenant.hex(),
        "traffic": TRAFFIC[job.traffic],
        "read": job.read,
        "derived": truth.derived,
        "foreign": _listed(fleet, truth.foreign),
        "through_cache": _listed(fleet, truth.through_cache),
    }


def _listed(fleet: Fleet, slots: SlotTruth) -> list[list[Any]]:
    return [
        [page, start, end, fleet.jobs[owner].rid_digest.hex() if owner >= 0 else None]
        for page, start, end, owner in ranges(slots)
    ]
