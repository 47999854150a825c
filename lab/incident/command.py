"""`pagewitness lab incident`: the incident simulated, asked about, and held against what is true."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from lab.engine.progress import say_on_stderr
from notify.exit_codes import ExitCode

EXAMPLES = """
Examples:

  pagewitness lab incident

  pagewitness lab incident --seed 11 --requests 5000
"""


def incident(
    seed: Annotated[
        int, typer.Option("--seed", help="Of the traffic. How many are affected does not depend on it.")
    ] = 1,
    requests: Annotated[int, typer.Option("--requests", help="How many requests arrive in 15 days.")] = 50_000,
) -> None:
    """Simulate the incident of 27 August to 9 September 2026, and ask who was affected.

    Exit code 0: the answer is exactly the truth; 1: it is not.
    """
    from lab.incident.run import run
    from lab.incident.scenario import fleets

    try:
        fleets(seed, requests)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE) from error
    result = run(seed, requests, say_on_stderr)
    print(json.dumps(result.figures()))
    raise typer.Exit(ExitCode.OK if result.right else ExitCode.ERROR)
