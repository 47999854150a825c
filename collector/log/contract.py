"""Where the receiver hands evidence on: a log that answers when it is safe."""

from __future__ import annotations

from typing import Protocol

from collector.store.receipt import Receipt


class EvidenceLog(Protocol):
    """Takes whole export requests. Any thread may call it, several at a time."""

    def append(self, message: bytes) -> Receipt:
        """Keep one serialised ExportTraceServiceRequest. Blocks until it is durable, and only then returns.

        The receipt says what is known of its spans by then: a log that is read later knows nothing of them yet, and
        gives an empty one. The same message may come twice. Raises BodyRefusedError for one that can never be kept, of
        which nothing was, and StoreFailedError for one that should be sent again.
        """
        ...
