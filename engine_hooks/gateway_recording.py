"""A gateway's ring: made where it can be, missed by no request where it cannot."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Sequence
from typing import TypedDict, Unpack

from engine_hooks.delivery_recorder import DeliveryRecorder
from engine_hooks.identity import EvidenceKey
from engine_hooks.ring import Ring, RingError
from engine_hooks.settings import Settings

_LANES = 2  # the event loop's thread, and one that replaces it
_log = logging.getLogger(__name__)


class Delivery(TypedDict):
    """What one delivery says, but for its request id: arguments of `DeliveryRecorder.delivery`."""

    state: str
    response_id: str
    tenant: str
    tenant_key: str
    traffic: str
    status: int | None
    client_salt: bool


class Recording:
    """Records the deliveries of a process, each worker's into a ring of its own.

    Without an evidence key, or where no ring can be made, it records nothing and says so once.
    """

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._evidence = EvidenceKey(settings.evidence_key) if settings.evidence_key else None
        self._recorder: DeliveryRecorder | None = None
        self._pid = 0
        if self._evidence is None:
            _log.warning("PAGEWITNESS_EVIDENCE_KEY is not set: no delivery is recorded")

    def open(self) -> None:
        """Make the ring of this process, if it has none. Best before the first request, which else waits for it."""
        pid = os.getpid()
        if self._evidence is None or self._pid == pid:
            return
        self._pid = pid  # also where it fails: one attempt, one message
        self._recorder = None  # a worker that was forked: the ring is its parent's
        settings = self._settings
        emitter = f"{settings.emitter}/gateway-{self._name or pid}"
        try:
            self._recorder = DeliveryRecorder(Ring.create(settings.ring_dir, emitter, settings.ring_bytes, _LANES))
        except (RingError, OSError, ValueError) as error:
            _log.warning("no delivery is recorded: %s", error)
            return
        # For servers that do not tell an application that they stop.
        atexit.register(self._recorder.close)

    def close(self) -> None:
        """Say that this process ends cleanly. What is recorded later is lost, and counted."""
        if self._recorder is not None and self._pid == os.getpid():
            atexit.unregister(self._recorder.close)
            self._recorder.close()

    def delivery(self, rids: Sequence[str], **said: Unpack[Delivery]) -> None:
        """Record a delivery once for each engine's request, or once without an id where these are not known."""
        self.open()
        if self._recorder is None or self._evidence is None:
            return
        for rid in rids:
            self._recorder.delivery(rid=self._evidence.rid(rid), **said)
        if not rids:
            self._recorder.delivery(rid=None, **said)

    def count_error(self) -> None:
        """Count an exception that was swallowed, for the agent to report."""
        self.open()
        if self._recorder is not None:
            self._recorder.hook_error()
