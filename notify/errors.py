"""Errors that end a command: each carries its sentence for a person and its exit code."""

from __future__ import annotations

from notify.exit_codes import ExitCode


class CommandError(Exception):
    """What happened, to what, and what to do. `exit_code` is what the command ends with."""

    exit_code = ExitCode.ERROR


class UsageError(CommandError):
    """A value that makes no sense, or a thing that does not exist."""

    exit_code = ExitCode.USAGE


class UnknownError(UsageError):
    """A tenant or a response that does not exist, as far as the evidence goes."""
