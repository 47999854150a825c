"""The one error of the engine lab: it says what happened, to what, and what to do."""

from __future__ import annotations

from notify.errors import CommandError


class LabError(CommandError):
    """Something that the person at the keyboard can act on; the message is written for them."""
