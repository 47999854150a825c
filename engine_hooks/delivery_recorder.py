"""What a gateway calls: one method, one fact for each request that it gave to the engine.

The rules of :mod:`engine_hooks.recorder` hold: nothing here blocks, raises or keeps a reference.
"""

from __future__ import annotations

from engine_hooks import conventions as c
from engine_hooks.facts import enum_index, layout_of
from engine_hooks.page_recorder import digest_of
from engine_hooks.ring import Ring

_DELIVERY = layout_of(c.DELIVERY_FACT)
_STATE_INDEX = enum_index(c.DELIVERY)
_TRAFFIC_INDEX = enum_index(c.TRAFFIC)
_BITS = _DELIVERY.required("failed")
_RID = _DELIVERY.presence(c.RID.name)
_TENANT_KEY = _DELIVERY.presence(c.TENANT_KEY.name)
_STATUS = _DELIVERY.presence(c.HTTP_STATUS.name)
_NO_DIGEST = bytes(16)


class DeliveryRecorder:
    """Records deliveries into the ring of a gateway's process."""

    __slots__ = ("_append", "ring")

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._append = ring.append

    def delivery(
        self,
        *,
        state: str,
        response_id: str,
        rid: bytes | None,
        tenant: str,
        tenant_key: str,
        traffic: str,
        status: int | None,
        client_salt: bool,
    ) -> bool:
        """A request that went to the engine came to its end at the client. Returns whether the fact is in the ring.

        `rid` is a keyed digest (None: the engine drew ids of its own), `tenant` 32 hex digits or `unattributed` (with
        an empty `tenant_key`), `status` the HTTP status that the client got (None: it got none).
        """
        try:
            presence = _BITS
            if rid is not None:
                presence |= _RID
            if tenant_key:
                presence |= _TENANT_KEY
            if status is not None:
                presence |= _STATUS
            elif state == "complete":
                return self.hook_error()
            texts = (response_id.encode(), tenant.encode(), tenant_key.encode())
            label = _TRAFFIC_INDEX[traffic]
            values = (
                presence, _STATE_INDEX[state], len(texts[0]), digest_of(rid or _NO_DIGEST), len(texts[1]),
                len(texts[2]), label, status or 0, client_salt,
            )  # fmt: skip
            return self._append(_DELIVERY, label, values, b"".join(texts))
        except Exception:  # noqa: BLE001 - the request must not notice; counted, and the agent reports it
            return self.hook_error()

    def hook_error(self) -> bool:
        """Count an exception that was swallowed. Returns False, so that a failed record can return it."""
        self.ring.count_error()
        return False

    def close(self) -> None:
        """Mark the ring as cleanly closed; later facts are refused."""
        self.ring.close()
