"""What would attach to the engine that this interpreter imports, found out without starting it.

    python -m engine_hooks.sglang_plugin.survey [control|exact] [mooncake|nixl|mori|ascend|none]

prints one JSON object. It imports the engine's modules, which takes seconds and can go wrong in any way: so it is a
process of its own, and whatever the engine prints meanwhile goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from engine_hooks.sglang_plugin.attach import UNKNOWN_VERSION, Attachment, rows_for
from engine_hooks.sglang_plugin.table import relevant
from engine_hooks.sglang_plugin.targets import Target, problem


def survey(version: str, tier: str, backend: str) -> dict[str, Any]:
    """The hook points of a node with this tier and transfer backend, on an engine that says this of its version.

    `hooks` has one entry a hook point: `problem` is empty where it attaches. `missing` is what the node would list as
    missing, facts without a supplier among it.
    """
    rows = relevant(rows_for(version, tier), backend)
    faults = {row: problem(row) for row in rows}
    found = Attachment(
        registered=[row for row in rows if not faults[row]],
        refused=[row for row in rows if faults[row]],
        version=version,
        tier=tier,
    )
    missing = found.missing(backend)
    return {
        "engine": "sglang",
        "version": version,
        "known": UNKNOWN_VERSION not in missing,
        "tier": tier,
        "backend": backend,
        "attached": len(found.attached(backend)),
        "missing": missing,
        "hooks": [_described(row, faults[row]) for row in rows],
    }


def _described(row: Target, fault: str) -> dict[str, Any]:
    return {
        "name": row.name,
        "target": row.path,
        "facts": list(row.facts),
        "tier": row.tier,
        "thread": row.thread,
        "cost": row.cost,
        "problem": fault,
    }


def main(arguments: list[str]) -> int:
    """Survey the engine of this interpreter; returns 0, or 1 where it cannot be imported at all."""
    tier, backend = (*arguments, *("control", "mooncake")[len(arguments) :])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import sglang

    print(json.dumps(survey(sglang.__version__, tier, backend)), file=out, flush=True)
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # not sys.exit: a thread that the engine's modules started must not keep the process
