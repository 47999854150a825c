"""What the lab tells a person while it works: one line each, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Say = Callable[[str], None]
"""Takes one line for the person at the keyboard."""


def say_on_stderr(line: str) -> None:
    """Print the line with the time (UTC)."""
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {line}", file=sys.stderr, flush=True)


def say_nothing(line: str) -> None:
    """Swallow it: for tests and for callers with a display of their own."""
