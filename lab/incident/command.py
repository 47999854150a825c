"""`pagewitness lab incident`: the incident simulated, asked about, and held against what is true."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.engine.errors import LabError
from lab.engine.progress import say_on_stderr
from lab.progress import INTERRUPTED
from notify.exit_codes import ExitCode

if TYPE_CHECKING:
    from lab.fleet.spec import FleetSpec
    from lab.incident.held import Result

EXAMPLES = """
Examples:

  pagewitness lab incident

  pagewitness lab incident --seed 11 --requests 5000 --store incident-11

  pagewitness lab incident --requests 3000 --all-seeds
"""


def incident(
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of the traffic. How many are affected does not depend on it.")
    ] = 1,
    requests: Annotated[int, typer.Option("--requests", help="How many requests arrive, of both models.")] = 50_000,
    store: Annotated[
        Path | None, typer.Option("--store", help="Keep the store in this new or empty folder, to go on asking.")
    ] = None,
    all_seeds: Annotated[
        bool, typer.Option("--all-seeds", help="Once for each of five seeds, with a line each; nothing is kept.")
    ] = False,
) -> None:
    """Simulate the incident of 27 August to 9 September 2026, and ask who was affected.

    Exit code 0: the answer is exactly the truth; 1: it is not; 130: interrupted.
    """
    from lab.fleet.files import check_folder
    from lab.incident.scenario import SEEDS, fleets

    try:
        each = [fleets(one, requests) for one in (SEEDS if all_seeds else (seed,))]
        if store is not None:
            check_folder(store)
    except (ValueError, LabError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE) from error
    if all_seeds and store is not None:
        print("--all-seeds keeps nothing: leave --store out, or name one --seed", file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE)
    right = True
    try:
        for specs in each:
            result = _run(specs, store)
            right &= result.right
            print(json.dumps(result.figures()), flush=True)
    except KeyboardInterrupt:
        kept = f": {store} holds what was stored until then, and opens" if store is not None else ""
        say_on_stderr(f"interrupted{kept}")
        raise typer.Exit(INTERRUPTED) from None
    if store is not None:
        _tell_next(store)
    raise typer.Exit(ExitCode.OK if right else ExitCode.ERROR)


def _run(fleets: tuple[FleetSpec, FleetSpec], folder: Path | None) -> Result:
    from collector.store import open_store
    from lab.incident.run import run

    if folder is not None:
        with open_store(folder) as store:
            return run(store, *fleets, say_on_stderr)
    with tempfile.TemporaryDirectory(prefix="pagewitness-incident-") as temporary, open_store(Path(temporary)) as store:
        return run(store, *fleets, say_on_stderr)


def _tell_next(folder: Path) -> None:
    """How to go on asking, with the lab's public keys."""
    from lab.incident.run import NAME, NAMES_FILE
    from lab.service import LAB_KEYS

    lines = [
        "To go on asking:",
        *(f"  export {name}={value}" for name, value in LAB_KEYS.items()),
        f"  export PAGEWITNESS_TENANTS_FILE={folder / NAMES_FILE}",
        f"  pagewitness serve --data-dir {folder} &",
        f"  notify incident affected {NAME} --data-dir {folder}",
        f"  notify affected --tenant tenant-0 --incident {NAME} --data-dir {folder}",
    ]
    print("\n".join(lines), file=sys.stderr)
