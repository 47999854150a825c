"""docs/exit-codes.md: what the exit status of every command means."""

from __future__ import annotations

from docs.tables import table
from notify.exit_codes import MEANING, ExitCode

INTRODUCTION = """# Exit codes

Made by `make docs` from `notify/exit_codes.py`. They hold for every command of ours, so that a script can tell
"nothing is wrong" from "nothing was found, but nobody can be sure"."""

NOTES = """`FOUND` outranks `INCOMPLETE`: where affected responses were found and some evidence is missing as well, the
status is that of `FOUND`, and the output counts what is unknown. Findings that only say what *could* have happened
(`exposure_risk`, `posture`) are printed and counted, and are not `FOUND`. Data goes to stdout, messages to stderr."""


def exit_codes_page() -> str:
    """The page, in Markdown."""
    rows = [[str(code.value), f"`{code.name}`", MEANING[code]] for code in ExitCode]
    return "\n\n".join([INTRODUCTION, table(["code", "name", "meaning"], rows), NOTES]) + "\n"
