"""`pagewitness lab fleet`: simulate a fleet, and write what its agents post beside what is true."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from lab.engine.errors import LabError
from lab.fleet import damage as damages
from lab.fleet import faults
from lab.progress import counted
from notify.exit_codes import ExitCode

EXAMPLES = """
Examples:

  pagewitness lab fleet --seed 7 --requests 20000 --out calm

  pagewitness lab fleet --seed 7 --faults reject_placeholder --requests 20000 --out leak

  pagewitness lab fleet --faults short_transfer:0.01@60-120,abort_continue:0.01 --damage lost:0.01,reordered --out storm
"""

Made = TypeVar("Made")


def fleet(
    out: Annotated[
        Path, typer.Option("--out", help="New or empty folder for bodies.bin, truth.json and their manifest.")
    ],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")] = 7,
    requests: Annotated[int, typer.Option("--requests", min=1, help="How many requests arrive.")] = 2_000,
    faults_text: Annotated[
        str,
        typer.Option(
            "--faults",
            help=f"name:rate@from-to,... (a share; seconds; may be left out) of {', '.join(faults.REGISTRY)}.",
        ),
    ] = "",
    damage_text: Annotated[
        str, typer.Option("--damage", help=f"name:amount,... (a share, or how many) of {', '.join(damages.REGISTRY)}.")
    ] = "",
    damage_seed: Annotated[int, typer.Option("--damage-seed", help="Seed of the damage.")] = 1,
    prefill_nodes: Annotated[int, typer.Option("--prefill-nodes", min=1, help="Prefill nodes.")] = 2,
    decode_nodes: Annotated[int, typer.Option("--decode-nodes", min=1, help="Decode nodes.")] = 2,
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="Orderly restarts of nodes over the run.")] = 0,
    crashes: Annotated[int, typer.Option("--crashes", min=0, help="Crashes of nodes over the run.")] = 0,
    retracts: Annotated[float, typer.Option("--retracts", min=0, max=1, help="Share of answers put aside once.")] = 0.0,
    lifo: Annotated[bool, typer.Option("--lifo", help="Free lists give the page that was freed last.")] = False,
) -> None:
    """Simulate a fleet whose pages hold content; write its evidence and the truth about each response."""
    injections = _usage(lambda: faults.parse(faults_text))
    wounds = _usage(lambda: damages.parse(damage_text))

    from lab.fleet.agent import Posted
    from lab.fleet.files import check_folder, write
    from lab.fleet.simulate import run_fleet
    from lab.fleet.spec import FleetSpec

    spec = FleetSpec(
        seed=seed,
        requests=requests,
        prefill_nodes=prefill_nodes,
        decode_nodes=decode_nodes,
        lifo=lifo,
        injections=injections,
        retracts=retracts,
        restarts=restarts,
        crashes=crashes,
    )
    words = [f"--seed {seed} --requests {requests}", f"--faults {faults_text}" * bool(faults_text)]
    try:
        check_folder(out)
        posted: list[Posted] = []
        with counted("requests that have arrived", requests) as (tell, _):
            done = run_fleet(spec, posted.append, tell)
        bodies = damages.damaged(posted, wounds, damage_seed)
        write(out, done, bodies, " ".join(["pagewitness lab fleet", *filter(None, words)]))
    except LabError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(ExitCode.ERROR) from error
    affected = sum(bool(len(one.foreign)) for one in done.truth.affected.values())
    derived = sum(one.derived and not len(one.foreign) for one in done.truth.affected.values())
    print(f"{requests} requests, {affected} affected responses, {derived} derived ones, {len(bodies)} bodies in {out}")


def _usage(make: Callable[[], Made]) -> Made:
    """What `make` makes; a ValueError is the user's, and ends the command with exit code 2 and its text."""
    try:
        return make()
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE) from error
