"""`pagewitness lab soak`: is any answer about a random fleet wrong?"""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from lab.engine.progress import say_on_stderr
from lab.progress import INTERRUPTED
from notify.exit_codes import ExitCode

EXAMPLES = """
Examples:

  pagewitness lab soak --fleets 100

  pagewitness lab soak --seed 7 --only 1234
"""
_SHOWN = 20


def soak(
    fleets: Annotated[int, typer.Option("--fleets", min=1, help="How many fleets.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what the fleets are like.")] = 1,
    only: Annotated[int | None, typer.Option("--only", min=0, help="The number of one fleet, to run it alone.")] = None,
    processes: Annotated[int | None, typer.Option("--processes", min=1, help="At once; by default one a core.")] = None,
) -> None:
    """Judge random fleets, with faults and damaged telemetry, and hold each answer against their content.

    Exit code 0: no answer was wrong; 1: one was; 130: interrupted.
    """
    from lab.fleet.held import Held
    from lab.progress import counted
    from lab.soak.run import run_all

    numbers = range(fleets) if only is None else range(only, only + 1)
    held, done = Held(), 0
    interrupted = False
    try:
        with counted("fleets", len(numbers)) as (tell, _):
            for count, share in run_all(seed, numbers, processes or os.cpu_count() or 1):
                held.add(share)
                done += count
                tell(done)
    except KeyboardInterrupt:
        interrupted = True
    for mistake in held.mistakes[:_SHOWN]:
        say_on_stderr(mistake)
    if held.mistakes:
        number = held.mistakes[0].partition(",")[0].removeprefix("fleet ")
        say_on_stderr(f"{len(held.mistakes)} mistakes; again alone: pagewitness lab soak --seed {seed} --only {number}")
    figures = {name: getattr(held, name) for name in held.__slots__ if name != "mistakes"}
    print(json.dumps({"fleets": done} | figures))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(ExitCode.ERROR if held.mistakes else ExitCode.OK)
