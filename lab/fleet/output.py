"""The bodies that the agents of a fleet post, in order."""

from __future__ import annotations

from collections.abc import Callable

from lab.fleet.agent import Posted

Take = Callable[[Posted], None]
"""Takes one body, e.g. to write it to a file."""


class Output:
    """Hands each body on, and counts."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.bodies = 0

    def post(self, body: Posted) -> None:
        """An agent posts a body."""
        self.bodies += 1
        self._take(body)
