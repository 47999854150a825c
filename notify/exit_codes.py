"""What the exit codes of every command mean: declared here, checked against docs/exit-codes.md."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """Exit status of a command. FOUND outranks INCOMPLETE."""

    OK = 0
    ERROR = 1
    USAGE = 2
    FOUND = 3
    INCOMPLETE = 4


MEANING: dict[ExitCode, str] = {
    ExitCode.OK: "asked, nothing wrong found, evidence complete",
    ExitCode.ERROR: "error",
    ExitCode.USAGE: "usage, or a thing that does not exist (an unknown tenant, response or incident)",
    ExitCode.FOUND: "what was asked for is there: affected responses",
    ExitCode.INCOMPLETE: "nothing found, but evidence incomplete or pending: not an all-clear",
}
"""One sentence a code."""
