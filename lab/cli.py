"""The sub-commands of `pagewitness lab`."""

from __future__ import annotations

import typer

from lab.engine.cli import app as engine

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The recorded leak, and the real engine on a CPU.",
)
app.add_typer(engine, name="engine")


@app.callback()
def lab() -> None:
    """Read nothing; every word is a sub-command's."""
