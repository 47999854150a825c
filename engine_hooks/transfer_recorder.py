"""What the hooks call of a transfer: reserved, told, queued, concluded, committed. See :mod:`engine_hooks.recorder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_hooks import conventions as c
from engine_hooks.facts import enum_index, layout_of
from engine_hooks.facts import page_bytes as _bytes_of
from engine_hooks.page_recorder import Leg, PageRecorder
from engine_hooks.page_recorder import digest_of as _digest

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_TRANSFER = layout_of(c.TRANSFER)
_SIDE_INDEX = enum_index(c.SIDE)
_FAILURE_INDEX = enum_index(c.FAILURE)
_RECEIVE, _SEND = (_SIDE_INDEX[word] for word in ("receive", "send"))
_RESERVED, _DESTINATION, _QUEUED, _COMMITTED, _REFUSED, _LANDED, _FAILED = (
    enum_index(c.STATUS)[word]
    for word in ("reserved", "destination", "queued", "committed", "refused", "landed", "failed")
)
_RESERVED_BITS = _TRANSFER.required("reserved")
_DESTINATION_BITS = _TRANSFER.required("destination")
_QUEUED_BITS = _TRANSFER.required("queued")
_COMMITTED_BITS = _TRANSFER.required("committed")
_REFUSED_BITS = _TRANSFER.required("refused")
_LANDED_BITS = _TRANSFER.required("landed")
_TRANSFER_SLOT = _TRANSFER.presence(c.SLOT.name)
_TRANSFER_PEER = _TRANSFER.presence(c.PEER_RANK.name)
_TRANSFER_PEERS = _TRANSFER.presence(c.PEERS.name)
_TRANSFER_LAST = _TRANSFER.presence(c.CHUNK_LAST.name)
_TRANSFER_BYTES = _TRANSFER.presence(c.PAGE_BYTES.name)
_TRANSFER_STATE = _TRANSFER.presence(c.STATE_PAGES.name)
_TRANSFER_FAILURE = _TRANSFER.presence(c.FAILURE.name)
_NO_DIGEST = bytes(16)


class TransferRecorder(PageRecorder):
    """The recorder's methods for the ends of a transfer."""

    __slots__ = ()

    def transfer_reserved(
        self,
        leg: Leg,
        *,
        room: int,
        session: str,
        destination: bytes,
        pages: ReadableBuffer,
        prefix_tokens: int,
        prompt_tokens: int,
        slot: int | None = None,
        peers: int | None = None,
        page_bytes: int | None = None,
        state_pages: int = 0,
    ) -> bool:
        """Decode published the pages that it wants filled (past the prefix, in token order), by so many `peers`."""
        try:
            leg.ordinal = ordinal = leg.take()
            text = session.encode()
            view = _bytes_of(pages)
            presence = _RESERVED_BITS if slot is None else _RESERVED_BITS | _TRANSFER_SLOT
            if peers is not None:
                presence |= _TRANSFER_PEERS
            if page_bytes is not None:
                presence |= _TRANSFER_BYTES
            if state_pages:
                presence |= _TRANSFER_STATE
            values = (
                leg.identity, ordinal, presence, _RECEIVE, _RESERVED, room, len(text), _digest(destination),
                view.nbytes, view.nbytes >> 2, prefix_tokens, prompt_tokens, 0, 0, 0, slot or 0,
                0, peers or 0, False, page_bytes or 0, state_pages, 0, 0,
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values, text, view)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def transfer_destination(
        self,
        leg: Leg,
        *,
        room: int,
        session: str,
        destination: bytes,
        page_count: int,
        prefix_tokens: int,
        slot: int | None = None,
        peers: int | None = None,
        state_pages: int = 0,
    ) -> bool:
        """Prefill received the destination list; its digest joins this leg to decode's. `peers`: decode ranks that it
        sends to."""
        try:
            leg.ordinal = ordinal = leg.take()
            text = session.encode()
            presence = _DESTINATION_BITS if slot is None else _DESTINATION_BITS | _TRANSFER_SLOT
            if peers is not None:
                presence |= _TRANSFER_PEERS
            if state_pages:
                presence |= _TRANSFER_STATE
            values = (
                leg.identity, ordinal, presence, _SEND, _DESTINATION, room, len(text), _digest(destination),
                0, page_count, prefix_tokens, 0, 0, 0, 0, slot or 0, 0, peers or 0, False, 0, state_pages, 0, 0,
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values, text)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def transfer_queued(
        self,
        leg: Leg,
        *,
        pages: ReadableBuffer,
        chunk_page: int,
        chunk_tokens: int,
        sender_pages: int,
        last: bool | None = None,
        state_pages: int = 0,
    ) -> bool:
        """Prefill enqueued one chunk: its source pages, where it starts in the destination list, its valid tokens."""
        try:
            leg.ordinal = ordinal = leg.take()
            view = _bytes_of(pages)
            presence = _QUEUED_BITS if last is None else _QUEUED_BITS | _TRANSFER_LAST
            if state_pages:
                presence |= _TRANSFER_STATE
            values = (
                leg.identity, ordinal, presence, _SEND, _QUEUED, 0, 0, _NO_DIGEST,
                view.nbytes, view.nbytes >> 2, 0, 0, chunk_page, chunk_tokens, sender_pages, 0,
                0, 0, bool(last), 0, state_pages, 0, 0,
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values, b"", view)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def transfer_committed(self, leg: Leg, *, prompt_tokens: int) -> bool:
        """Decode took the transfer for complete, with a prompt of this length."""
        return self._outcome(leg, _COMMITTED_BITS, _COMMITTED, prompt_tokens)

    def transfer_refused(self, leg: Leg) -> bool:
        """Decode did not accept the transfer."""
        return self._outcome(leg, _REFUSED_BITS, _REFUSED, 0)

    def _outcome(self, leg: Leg, presence: int, status: int, prompt_tokens: int) -> bool:
        try:
            leg.ordinal = ordinal = leg.take()
            values = (
                leg.identity, ordinal, presence, _RECEIVE, status, 0, 0, _NO_DIGEST, 0, 0, 0, prompt_tokens, 0, 0, 0, 0,
                0, 0, False, 0, 0, 0, 0,
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def transfer_concluded(
        self, leg: Leg, *, side: str, landed: bool, peer_rank: int | None = None, failure: str = "none"
    ) -> bool:
        """A sending rank concluded its part: as it says itself (`send`), or as decode was told (`receive`, with the
        `peer_rank` that told)."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _LANDED_BITS if peer_rank is None else _LANDED_BITS | _TRANSFER_PEER
            if not landed:
                presence |= _TRANSFER_FAILURE
            values = (
                leg.identity, ordinal, presence, _SIDE_INDEX[side], _LANDED if landed else _FAILED, 0, 0, _NO_DIGEST,
                0, 0, 0, 0, 0, 0, 0, 0, peer_rank or 0, 0, False, 0, 0, _FAILURE_INDEX[failure], 0,
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()
