"""`python -m lab.engine`: the real engine on a CPU. Linux, root, Python 3.11."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lab.engine import install as installation
from lab.engine.errors import LabError
from lab.engine.namespace import Namespace
from lab.engine.paths import LabPaths
from lab.engine.progress import say_on_stderr
from notify.exit_codes import ExitCode
from notify.render.plain import printable

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The real engine on a CPU: SGLang prefill/decode pairs in a private network namespace (Linux, root).",
)

CAPTURED_VERSION = "0.5.19"
"""The engine version that `capture` records on unless it is told another."""

Version = Annotated[str, typer.Option("--version", help=f"Engine version: {', '.join(installation.ALL_VERSIONS)}.")]


@app.callback()
def engine() -> None:
    """Read nothing; every word is a sub-command's."""


@contextmanager
def _telling() -> Iterator[None]:
    """An error of the lab ends the command with its text, which may be several lines: the end of a log, for one.

    SIGTERM ends it as an exit does, so that a pair that is up goes down with it.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    except LabError as error:
        for line in str(error).splitlines():
            print(printable(line), file=sys.stderr)
        raise typer.Exit(ExitCode.ERROR) from error


@app.command()
def install(
    everything: Annotated[
        bool, typer.Option("--all", help=f"Also {', '.join(installation.MORE_OVERLAYS)}: 200 MB of disk each.")
    ] = False,
) -> None:
    """Install the engine into an environment of its own (`.lab`, or PAGEWITNESS_LAB_DIR). Again: no work."""
    with _telling():
        installation.install(LabPaths.from_environment(), everything=everything)


@app.command()
def matrix() -> None:
    """Print as one JSON line which hook points attach on each version that `install --all` installs."""
    from lab.engine.matrix import attach_matrix

    with _telling():
        print(json.dumps({"versions": attach_matrix(LabPaths.from_environment())}))


@app.command()
def up(version: Version = installation.MAIN) -> None:
    """Start a pair that stays until `down`: prefill on 127.0.0.1:31000, decode on 31001, inside its namespace."""
    from lab.engine.pair import Pair
    from lab.engine.servers import PairSettings, RunFolder

    paths = LabPaths.from_environment()
    with _telling():
        installation.require_installed(paths, version)
        paths.runs.mkdir(parents=True, exist_ok=True)
        run = RunFolder(Path(tempfile.mkdtemp(prefix=f"up-{version}-", dir=paths.runs)))
        Pair(PairSettings(version=version), run, paths, detached=True).up()
    say_on_stderr(f"logs and rings are in {run.root}; `python -m lab.engine down` ends it")


@app.command()
def down() -> None:
    """End the pair that `up` started: every process of its namespace, and the namespace."""
    namespace = Namespace.of(LabPaths.from_environment().root, detached=True)
    if not namespace.exists:
        say_on_stderr("no pair is up")
    with _telling():
        namespace.remove()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(context: typer.Context) -> None:
    """Run a command inside the network namespace of the pair that `up` started."""
    if not context.args:
        raise typer.BadParameter("say which command to run")
    namespace = Namespace.of(LabPaths.from_environment().root, detached=True)
    with _telling():
        if not namespace.exists:
            raise LabError("no pair is up: run `python -m lab.engine up` first")
    raise typer.Exit(subprocess.run(namespace.command(*context.args), check=False).returncode)


@app.command()
def capture(
    story: Annotated[str, typer.Option("--story", help="Which story; `stories` lists them.")] = "oversized",
    version: Version = CAPTURED_VERSION,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write; by default in lab/captures.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Record every capture that is kept, each in its place.")] = False,
) -> None:
    """Record a story on one engine version: bodies, truth and traffic."""
    from lab.engine.capture import default_folder, record, record_all
    from lab.engine.stories import STORIES

    with _telling():
        if every:
            record_all()
            return
        if story not in STORIES:
            raise typer.BadParameter(f"no such story: {story!r}; there are {', '.join(STORIES)}")
        record(STORIES[story], version, out or default_folder(STORIES[story], version))


@app.command()
def stories() -> None:
    """List the stories that `capture` can record."""
    from lab.engine.stories import STORIES

    for story in STORIES.values():
        print(f"{story.name:<16} {', '.join(story.versions):<16} {story.about}")


@app.command()
def demo() -> None:
    """Show the leak and its answer live, on a vulnerable engine and on a fixed one."""
    from lab.engine_demo import main as run_demo

    raise typer.Exit(run_demo())


def main() -> int:
    """Run the process's command line; returns the exit code."""
    from notify.output import run_app

    return run_app(app, "python -m lab.engine")
