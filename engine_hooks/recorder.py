"""What the hooks call: one method for each thing an engine process can see.

No method blocks, raises or keeps a reference to what it is given. Each returns whether the fact is in the ring: False
means that it was dropped (counted in the ring's header) or that the values could not be recorded (counted there as a
hook error). Either way it used up an ordinal of its leg, so that the leg can no longer pass for complete.

Call order is the contract's causal order: record what *releases* something before the release becomes visible, what
*consumes* something after.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING

from engine_hooks import conventions as c
from engine_hooks.facts import IDENTITY, KEY_ID_BYTES, Value, enum_index, layout_of, page_bytes
from engine_hooks.ring import Ring

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ADMISSION = layout_of(c.REQUEST_ADMISSION)
_TRANSFER = layout_of(c.TRANSFER)
_READ = layout_of(c.PAGE_READ)
_RELEASE = layout_of(c.PAGE_RELEASE)
_RESPONSE = layout_of(c.RESPONSE)
_END = layout_of(c.REQUEST_END)
_CONFIG = layout_of(c.NODE_CONFIG)

_TRAFFIC_INDEX = enum_index(c.TRAFFIC)
_ADMISSION_INDEX = enum_index(c.ADMISSION)
_REASON_INDEX = enum_index(c.REASON)
_PHASE_INDEX = enum_index(c.PHASE)
_MODE_INDEX = enum_index(c.RELEASE_MODE)
_FINISH_INDEX = enum_index(c.FINISH)
_END_INDEX = enum_index(c.END_STATE)
_RECEIVE, _SEND = (enum_index(c.SIDE)[word] for word in ("receive", "send"))
_RESERVED, _DESTINATION, _QUEUED, _COMMITTED, _REFUSED = (
    enum_index(c.STATUS)[word] for word in ("reserved", "destination", "queued", "committed", "refused")
)

# Presence bits, worked out once: what each variant must carry, and what may come on top.
_ADMISSION_BITS = _ADMISSION.required("admitted")
_ADMISSION_STATUS = _ADMISSION.presence(c.HTTP_STATUS.name)
_ADMISSION_ROOM = _ADMISSION.presence(c.ROOM.name)
_RESERVED_BITS = _TRANSFER.required("reserved")
_DESTINATION_BITS = _TRANSFER.required("destination")
_QUEUED_BITS = _TRANSFER.required("queued")
_COMMITTED_BITS = _TRANSFER.required("committed")
_REFUSED_BITS = _TRANSFER.required("refused")
_TRANSFER_SLOT = _TRANSFER.presence(c.SLOT.name)
_READ_BITS = _READ.required(None)
_READ_ROW = _READ.presence(c.ROW.name)
_READ_GENERATION = _READ.presence(c.ROW_GENERATION.name)
_RELEASE_BITS = _RELEASE.required(None)
_RESPONSE_BITS = _RESPONSE.required(None)
_RESPONSE_STATUS = _RESPONSE.presence(c.HTTP_STATUS.name)
_END_BITS = _END.required(None)
_END_DESTINATION = _END.presence(c.DESTINATION.name)

_NO_DIGEST = bytes(16)
_IDENTITY_OF_A_NODE = frozenset({c.NODE.name, c.RANK.name})


class Leg:
    """One leg as the recorder needs it, made once a leg.

    `uid` and `tenant` are 16 bytes (tenant all zero = unattributed), `tenant_key` the id of the pseudonym key (''
    when unattributed), `traffic` a label of the contract. `ordinal` is the number of the leg's latest fact.
    Raises ValueError for values of another shape.
    """

    __slots__ = ("identity", "ordinal", "take", "traffic", "uid")

    def __init__(self, uid: bytes, tenant: bytes, tenant_key: str, traffic: str) -> None:
        key = tenant_key.encode("ascii")
        if len(uid) != 16 or len(tenant) != 16 or len(key) > KEY_ID_BYTES or uid == _NO_DIGEST:
            raise ValueError(
                "a leg needs a non-zero uid and a tenant of 16 bytes, and a key id of at most 8 characters"
            )
        if traffic not in _TRAFFIC_INDEX:
            raise ValueError(f"traffic is one of {', '.join(_TRAFFIC_INDEX)}")
        self.uid = uid
        self.identity = IDENTITY.pack(uid, tenant, key)
        self.traffic = _TRAFFIC_INDEX[traffic]
        self.take = count(1).__next__  # atomic: a leg can be seen by two threads
        self.ordinal = 0


class Recorder:
    """Records facts of one process into its ring. All threads of the process may share one recorder."""

    __slots__ = ("_append", "ring")

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._append = ring.append

    def node_config(
        self,
        *,
        node_id: bytes,
        role: str,
        rank: int,
        ranks: int,
        engine: str,
        engine_version: str,
        model: str,
        context_tokens: int,
        pool_tokens: int,
        input_limit: int,
        page_size: int,
        kv_dtype: str,
        kv_layers: int,
        backend: str,
        prefix_cache: bool,
        tier: str,
        hooks_attached: Sequence[str],
        hooks_missing: Sequence[str],
    ) -> bool:
        """What this process is set up to do; at boot and at every change. `node_id` is 16 bytes.

        The fingerprint covers everything but node and rank: processes that are set up alike have the same one.
        """
        try:
            values: dict[str, Value] = {
                c.NODE.name: node_id,
                c.ROLE.name: role,
                c.RANK.name: rank,
                c.RANKS.name: ranks,
                c.ENGINE.name: engine,
                c.ENGINE_VERSION.name: engine_version,
                c.MODEL.name: model,
                c.CONTEXT_TOKENS.name: context_tokens,
                c.POOL_TOKENS.name: pool_tokens,
                c.INPUT_LIMIT.name: input_limit,
                c.PAGE_SIZE.name: page_size,
                c.KV_DTYPE.name: kv_dtype,
                c.KV_LAYERS.name: kv_layers,
                c.BACKEND.name: backend,
                c.PREFIX_CACHE.name: prefix_cache,
                c.TIER.name: tier,
                c.HOOKS_ATTACHED.name: tuple(hooks_attached),
                c.HOOKS_MISSING.name: tuple(hooks_missing),
            }
            values[c.FINGERPRINT.name] = _fingerprint(values)
            arguments, text, _ = _CONFIG.pack(values)
            return self._append(_CONFIG, 0, arguments, text)
        except Exception:  # noqa: BLE001 - the engine must not notice; counted, and the agent reports it
            return self.hook_error()

    def admission(
        self,
        leg: Leg,
        *,
        state: str,
        reason: str,
        need_tokens: int,
        input_limit: int,
        context_tokens: int,
        room: int | None,
        rid: bytes,
        status: int | None = None,
    ) -> bool:
        """The node took the request in or rejected it. `need_tokens` is the client's length, before any placeholder;
        `room` (0 or None = no room) and `rid` are keyed digests; a rejection needs the HTTP `status` it carries."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _ADMISSION_BITS
            if room:
                presence |= _ADMISSION_ROOM
            if status is not None:
                presence |= _ADMISSION_STATUS
            elif state == "rejected":
                return self.hook_error()
            values = (
                leg.identity, ordinal, presence, _ADMISSION_INDEX[state], _REASON_INDEX[reason], need_tokens,
                input_limit, context_tokens, room or 0, _digest(rid), status or 0,
            )  # fmt: skip
            return self._append(_ADMISSION, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

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
    ) -> bool:
        """Decode published the pages that it wants filled (past the prefix, in token order)."""
        try:
            leg.ordinal = ordinal = leg.take()
            text = session.encode()
            view = page_bytes(pages)
            presence = _RESERVED_BITS if slot is None else _RESERVED_BITS | _TRANSFER_SLOT
            values = (
                leg.identity, ordinal, presence, _RECEIVE, _RESERVED, room, len(text), _digest(destination),
                view.nbytes, view.nbytes >> 2, prefix_tokens, prompt_tokens, 0, 0, 0, slot or 0,
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
    ) -> bool:
        """Prefill received the destination list; its digest joins this leg to decode's."""
        try:
            leg.ordinal = ordinal = leg.take()
            text = session.encode()
            presence = _DESTINATION_BITS if slot is None else _DESTINATION_BITS | _TRANSFER_SLOT
            values = (
                leg.identity, ordinal, presence, _SEND, _DESTINATION, room, len(text), _digest(destination),
                0, page_count, prefix_tokens, 0, 0, 0, 0, slot or 0,
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values, text)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def transfer_queued(
        self, leg: Leg, *, pages: ReadableBuffer, chunk_page: int, chunk_tokens: int, sender_pages: int
    ) -> bool:
        """Prefill enqueued one chunk: its source pages, where it starts in the destination list, its valid tokens."""
        try:
            leg.ordinal = ordinal = leg.take()
            view = page_bytes(pages)
            values = (
                leg.identity, ordinal, _QUEUED_BITS, _SEND, _QUEUED, 0, 0, _NO_DIGEST,
                view.nbytes, view.nbytes >> 2, 0, 0, chunk_page, chunk_tokens, sender_pages, 0,
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
            )  # fmt: skip
            return self._append(_TRANSFER, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def read(
        self, leg: Leg, *, phase: str, tokens: int, row: int | None = None, row_generation: int | None = None
    ) -> bool:
        """A decode step attended over token positions [0, tokens): the leg's first step, or its longest."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _READ_BITS
            if row is not None:
                presence |= _READ_ROW
            if row_generation is not None:
                presence |= _READ_GENERATION
            values = (
                leg.identity, ordinal, presence, _PHASE_INDEX[phase], tokens, row or 0, row_generation or 0,
            )  # fmt: skip
            return self._append(_READ, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def release(
        self,
        leg: Leg,
        *,
        mode: str,
        pages: ReadableBuffer,
        complete: bool,
        prefix_tokens: int,
        written_start: int,
        written_end: int,
    ) -> bool:
        """The leg gives its pages up: every page it held in token order, and the token positions that its own
        forwards wrote, [written_start, written_end)."""
        try:
            leg.ordinal = ordinal = leg.take()
            view = page_bytes(pages)
            values = (
                leg.identity, ordinal, _RELEASE_BITS, _MODE_INDEX[mode], view.nbytes, complete,
                prefix_tokens, written_start, written_end,
            )  # fmt: skip
            return self._append(_RELEASE, leg.traffic, values, b"", view)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def response(
        self,
        leg: Leg,
        *,
        finish: str,
        input_tokens: int,
        output_tokens: int,
        delivered: int,
        status: int | None = None,
    ) -> bool:
        """What the engine told the client's side; `delivered` counts what can have reached them."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _RESPONSE_BITS if status is None else _RESPONSE_BITS | _RESPONSE_STATUS
            values = (
                leg.identity, ordinal, presence, _FINISH_INDEX[finish], status or 0, input_tokens, output_tokens,
                delivered,
            )  # fmt: skip
            return self._append(_RESPONSE, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def end(
        self, leg: Leg, *, state: str, queued_pages: int, queued_tokens: int, destination: bytes | None = None
    ) -> bool:
        """The leg's last fact; its own ordinal is the number of facts that the leg has."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _END_BITS
            if destination is not None and destination != _NO_DIGEST:
                presence |= _END_DESTINATION
            values = (
                leg.identity, ordinal, presence, _END_INDEX[state], ordinal, _digest(destination or _NO_DIGEST),
                queued_pages, queued_tokens,
            )  # fmt: skip
            return self._append(_END, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()

    def hook_error(self) -> bool:
        """Count an exception that a hook swallowed. Returns False, so that a failed record can return it."""
        self.ring.count_error()
        return False

    def close(self) -> None:
        """Mark the ring as cleanly closed; later facts are refused."""
        self.ring.close()


def _digest(value: bytes) -> bytes:
    if len(value) != 16:  # struct would cut or pad it without a word
        raise ValueError("a digest has 16 bytes")
    return value


def _fingerprint(values: dict[str, Value]) -> bytes:
    described = repr(sorted((name, value) for name, value in values.items() if name not in _IDENTITY_OF_A_NODE))
    return blake2b(described.encode(), digest_size=16, person=b"pw.config").digest()
