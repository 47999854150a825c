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
from typing import TYPE_CHECKING

from engine_hooks import conventions as c
from engine_hooks.facts import Value, enum_index, layout_of
from engine_hooks.facts import page_bytes as _bytes_of
from engine_hooks.page_recorder import Leg
from engine_hooks.page_recorder import digest_of as _digest
from engine_hooks.transfer_recorder import TransferRecorder

__all__ = ["Leg", "Recorder"]

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ADMISSION = layout_of(c.REQUEST_ADMISSION)
_READ = layout_of(c.PAGE_READ)
_RELEASE = layout_of(c.PAGE_RELEASE)
_RESPONSE = layout_of(c.RESPONSE)
_END = layout_of(c.REQUEST_END)
_CONFIG = layout_of(c.NODE_CONFIG)

_ADMISSION_INDEX = enum_index(c.ADMISSION)
_REASON_INDEX = enum_index(c.REASON)
_PHASE_INDEX = enum_index(c.PHASE)
_MODE_INDEX = enum_index(c.RELEASE_MODE)
_FINISH_INDEX = enum_index(c.FINISH)
_END_INDEX = enum_index(c.END_STATE)

# Presence bits, worked out once: what each variant must carry, and what may come on top.
_ADMISSION_BITS = _ADMISSION.required("admitted")
_ADMISSION_STATUS = _ADMISSION.presence(c.HTTP_STATUS.name)
_ADMISSION_ROOM = _ADMISSION.presence(c.ROOM.name)
_ADMISSION_RESUMES = _ADMISSION.presence(c.RESUMES.name)
_ADMISSION_NAMESPACE = _ADMISSION.presence(c.NAMESPACE.name)
_READ_BITS = _READ.required(None)
_READ_ROW = _READ.presence(c.ROW.name)
_READ_GENERATION = _READ.presence(c.ROW_GENERATION.name)
_RELEASE_BITS = _RELEASE.required(None)
_RELEASE_AFTER = _RELEASE.presence(c.AFTER_SEQ.name)
_RESPONSE_BITS = _RESPONSE.required(None)
_RESPONSE_STATUS = _RESPONSE.presence(c.HTTP_STATUS.name)
_END_BITS = _END.required(None)
_END_DESTINATION = _END.presence(c.DESTINATION.name)
_END_STEPS = _END.presence(c.STEPS.name)
_END_ACQUIRED = _END.presence(c.ACQUIRED_PAGES.name)

_NO_DIGEST = bytes(16)
_IDENTITY_OF_A_NODE = frozenset({c.NODE.name, c.RANK.name, c.RANK_NAMES.name})


class Recorder(TransferRecorder):
    """Records facts of one process into its ring. All threads of the process may share one recorder."""

    __slots__ = ()

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
        rank_names: Sequence[str] = (),
        parallel: tuple[int, int, int] | None = None,
        region: str = "",
        model_revision: str = "",
        kv_layout: str = "",
        components: Sequence[str] = (),
        host_tokens: int | None = None,
        slots: int | None = None,
        safety: Sequence[str] | None = None,
    ) -> bool:
        """What this process is set up to do; at boot and at every change. `node_id` is 16 bytes, `parallel` the sizes
        of (tensor, pipeline, data) parallelism. What is not known is left out.

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
            optional: dict[str, Value | None] = {
                c.RANK_NAMES.name: tuple(rank_names) or None,
                c.PARALLEL_TP.name: parallel[0] if parallel else None,
                c.PARALLEL_PP.name: parallel[1] if parallel else None,
                c.PARALLEL_DP.name: parallel[2] if parallel else None,
                c.REGION.name: region or None,
                c.MODEL_REVISION.name: model_revision or None,
                c.KV_LAYOUT.name: kv_layout or None,
                c.COMPONENTS.name: tuple(components) or None,
                c.HOST_TOKENS.name: host_tokens,
                c.SLOTS.name: slots,
                c.SAFETY.name: None if safety is None else tuple(safety),
            }
            values |= {name: value for name, value in optional.items() if value is not None}
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
        resumes: bytes | None = None,
        namespace: bytes | None = None,
    ) -> bool:
        """The node took the request in or rejected it. `need_tokens` is the client's length, before any placeholder;
        `room` (0 or None = no room), `rid` and `namespace` are keyed digests; a rejection needs the HTTP `status` it
        carries; `resumes` is the uid of an earlier leg of the same request that was retracted."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _ADMISSION_BITS
            if room:
                presence |= _ADMISSION_ROOM
            if status is not None:
                presence |= _ADMISSION_STATUS
            elif state == "rejected":
                return self.hook_error()
            if resumes is not None:
                presence |= _ADMISSION_RESUMES
            if namespace is not None:
                presence |= _ADMISSION_NAMESPACE
            values = (
                leg.identity, ordinal, presence, _ADMISSION_INDEX[state], _REASON_INDEX[reason], need_tokens,
                input_limit, context_tokens, room or 0, _digest(rid), status or 0, _digest(resumes or _NO_DIGEST),
                _digest(namespace or _NO_DIGEST),
            )  # fmt: skip
            return self._append(_ADMISSION, leg.traffic, values)
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
        after_seq: int | None = None,
    ) -> bool:
        """The leg gives its pages up: every page it held in token order, and the token positions that its own
        forwards wrote, [written_start, written_end). `after_seq`: it happened right after the fact of this seq."""
        try:
            leg.ordinal = ordinal = leg.take()
            view = _bytes_of(pages)
            values = (
                leg.identity, ordinal, _RELEASE_BITS if after_seq is None else _RELEASE_BITS | _RELEASE_AFTER,
                _MODE_INDEX[mode], view.nbytes, complete, prefix_tokens, written_start, written_end, 0, 0,
                after_seq or 0,
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
        self,
        leg: Leg,
        *,
        state: str,
        queued_pages: int,
        queued_tokens: int,
        destination: bytes | None = None,
        steps: int | None = None,
        acquired_pages: int | None = None,
    ) -> bool:
        """The leg's last fact; its own ordinal is the number of facts that the leg has. `steps` and `acquired_pages`
        are totals of the exact tier."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _END_BITS
            if destination is not None and destination != _NO_DIGEST:
                presence |= _END_DESTINATION
            if steps is not None:
                presence |= _END_STEPS
            if acquired_pages is not None:
                presence |= _END_ACQUIRED
            values = (
                leg.identity, ordinal, presence, _END_INDEX[state], ordinal, _digest(destination or _NO_DIGEST),
                queued_pages, queued_tokens, steps or 0, acquired_pages or 0,
            )  # fmt: skip
            return self._append(_END, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see node_config
            return self.hook_error()


def _fingerprint(values: dict[str, Value]) -> bytes:
    described = repr(sorted((name, value) for name, value in values.items() if name not in _IDENTITY_OF_A_NODE))
    return blake2b(described.encode(), digest_size=16, person=b"pw.config").digest()
