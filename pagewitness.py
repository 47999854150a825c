"""pagewitness: names the LLM responses that another tenant's KV cache leaked into, from evidence without content.

This module is the composition root: the version, and the umbrella command `pagewitness`, whose sub-commands are the
stages. A stage is imported when it is asked for, and not before: `pagewitness --version` loads no database.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from engine_hooks.version import VERSION

__version__ = VERSION

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Names the responses that another tenant's KV cache leaked into. The answers come from `notify`.",
)
_FORWARDED: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    "add_help_option": False,
}


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"pagewitness {VERSION}")
        raise typer.Exit


@app.callback()
def umbrella(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Read `--version`; everything else is a sub-command's."""


def _forward(stage: str, context: typer.Context) -> None:
    """Hand the rest of the command line to the application in `<stage>.cli`; end with its exit code."""
    from notify.output import run_app

    raise typer.Exit(run_app(import_module(f"{stage}.cli").app, f"pagewitness {stage}", context.args))


@app.command(**_FORWARDED)
def hooks(context: typer.Context) -> None:
    """On the GPU node: the agent that posts evidence, and its doctor."""
    from engine_hooks.cli import main as run_hooks  # no Typer on a GPU node: it parses its arguments by itself

    raise typer.Exit(run_hooks(context.args))


@app.command(**_FORWARDED)
def collector(context: typer.Context) -> None:
    """Tokens of the emitters that may post evidence."""
    _forward("collector", context)


@app.command(**_FORWARDED)
def detectors(context: typer.Context) -> None:
    """The rules, and passes over stored evidence."""
    _forward("detectors", context)


@app.command()
def dashboards() -> None:
    """Panels over the same tables; this version ships none."""
    print("This version has no dashboard panels.")


@app.command(**_FORWARDED)
def lab(context: typer.Context) -> None:
    """The recorded leak, and the real engine on a CPU."""
    _forward("lab", context)


@app.command()
def serve(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder of the store and of serve.json [PAGEWITNESS_DATA_DIR].")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on [PAGEWITNESS_HOST].")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one [PAGEWITNESS_PORT].")
    ] = None,
    detect_every: Annotated[
        float | None,
        typer.Option("--detect-every", min=0.05, help="Seconds between passes [PAGEWITNESS_DETECT_EVERY]."),
    ] = None,
) -> None:
    """Run every stage in one process: evidence in, detection, answers out."""
    from notify.settings import load_settings

    given = {"data_dir": data_dir, "host": host, "port": port, "detect_every": detect_every}
    settings = load_settings().model_copy(update={name: value for name, value in given.items() if value is not None})
    from notify.service.logs import configure_logging
    from notify.service.serve import serve as run_service

    configure_logging()
    run_service(settings)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `pagewitness` with these arguments, by default the process's. Returns the exit code."""
    from notify.output import run_app

    return run_app(app, "pagewitness", argv)


if __name__ == "__main__":
    sys.exit(main())
