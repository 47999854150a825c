"""The sub-commands of `pagewitness lab`."""

from __future__ import annotations

from typing import Any

import typer

from lab.engine.cli import app as engine
from lab.fleet.command import EXAMPLES as FLEET_EXAMPLES
from lab.fleet.command import fleet
from lab.incident.command import EXAMPLES as INCIDENT_EXAMPLES
from lab.incident.command import incident
from lab.soak.command import EXAMPLES as SOAK_EXAMPLES
from lab.soak.command import soak

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The recorded leak, the real engine on a CPU, simulated fleets, and a simulated incident.",
)
app.add_typer(engine, name="engine")
app.command("fleet", epilog=FLEET_EXAMPLES)(fleet)
app.command("incident", epilog=INCIDENT_EXAMPLES)(incident)
app.command("soak", epilog=SOAK_EXAMPLES)(soak)


_FORWARDED: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    "add_help_option": False,
}


@app.callback()
def lab() -> None:
    """Read nothing; every word is a sub-command's."""


@app.command(**_FORWARDED)
def demo(context: typer.Context) -> None:
    """Replay the recorded leak, and say who was affected."""
    from lab.demo import main

    raise typer.Exit(main(context.args, "pagewitness lab demo"))


@app.command("engine-demo")
def engine_demo() -> None:
    """The same live, on a vulnerable and on a fixed engine (Linux, root)."""
    from lab.engine_demo import main

    raise typer.Exit(main())
