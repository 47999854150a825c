"""What a standstill means for the evidence: nothing that was not seen may look as if it had been seen.

While the hooks stand still, requests come and go, pages change hands and counters stand wrong. So a standstill ends the
boot: its ring is closed, and legs that were open get no last fact and stay incomplete. Afterwards everything begins
anew, as in an engine that was started just then, with a new boot and new parts, but for two things that such an engine
would not have: requests that are already inside, of which nothing is recorded, and pages with content, which is why the
new boot begins with a loss (nobody knows how large).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakSet

from engine_hooks.sglang_plugin.parts import Parts

log = logging.getLogger(__name__)


class Standstill:
    """Stops and restarts the recording of one scheduler process. `make` builds its parts."""

    def __init__(self, parts: Parts, make: Callable[[], Parts]) -> None:
        self.parts = parts
        self._make = make
        parts.legs.alive = WeakSet()

    def stop(self) -> None:
        """End the boot. What was recorded until now stays, and is drained as that of any boot."""
        legs = self.parts.legs
        legs.recorder = None
        legs.lose_all()
        self.parts.node.close()
        log.warning("pagewitness: the kill file is there: the hooks stand still, and nothing is recorded")

    def go(self) -> None:
        """Begin a new boot, if there was one before: what the configuration is read from is known only then."""
        old = self.parts
        scheduler = old.node.scheduler()
        if scheduler is None:
            log.warning(
                "pagewitness: the kill file was there when the engine started: nothing is recorded until it restarts"
            )
            return
        new = self._make()
        new.legs.alive = WeakSet()
        new.legs.midway = True
        new.legs.occurrences = old.legs.occurrences  # a uid is never given twice
        new.node.attachment = attachment = old.node.attachment
        new.node.after_init(None, scheduler)
        if new.legs.recorder is not None:
            new.legs.recorder.ring.count_drop()
        boundary = old.boundary
        boundary.report_to(new.legs.failed, new.node.hook_switched_off)
        for target, guarded in attachment.hooks:
            part, _, method = target.handler.partition(".")
            boundary.rebind(guarded, getattr(new.handlers[part], method))
        self.parts = replace(new, boundary=boundary)
        log.warning("pagewitness: the kill file is gone: recording again, with a new boot")
