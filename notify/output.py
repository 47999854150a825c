"""The ways out of a command: data on stdout, messages on stderr, a quiet end where nobody reads any more."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import typer

from notify.errors import CommandError
from notify.exit_codes import ExitCode
from notify.render.plain import printable


def say(message: str) -> None:
    """One message for the person, on stderr."""
    print(printable(message), file=sys.stderr, flush=True)


def write(text: str) -> None:
    """Data for a program, on stdout, as UTF-8 whatever the locale says."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))


def quietly(show: Callable[[], None]) -> None:
    """Call what writes to stdout. A reader that has gone (``| head``) is no error: the answer's exit code stands."""
    try:
        show()
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered has nowhere to go, and must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_app(app: typer.Typer, program: str, argv: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit code; errors that it knows end as one sentence on stderr."""
    try:
        app(args=None if argv is None else list(argv), prog_name=program)
    except CommandError as error:
        say(f"{program}: {error}")
        return error.exit_code
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else ExitCode.OK if done.code is None else ExitCode.ERROR
    return ExitCode.OK
