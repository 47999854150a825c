"""How far a long run is: a bar on a terminal, else lines with the time, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.engine.progress import Say, say_on_stderr

Tell = Callable[[int], None]
"""Takes how many there are by now."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

_LINES = 10


@contextmanager
def counted(what: str, total: int, say: Say = say_on_stderr) -> Iterator[tuple[Tell, Say]]:
    """Shows how many of `total` there are by now, and what is said meanwhile: beside the bar, else by `say`."""
    if not sys.stderr.isatty():
        yield _in_lines(what, total, say), say
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield (
            lambda count: bar.update(task, completed=count),
            lambda line: bar.update(task, description=line),
        )


def _in_lines(what: str, total: int, say: Say) -> Tell:
    told = [0]

    def tell(count: int) -> None:
        tenth = count * _LINES // total
        if tenth > told[0]:
            told[0] = tenth
            say(f"{what}: {count} of {total}")

    return tell
