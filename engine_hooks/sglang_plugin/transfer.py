"""Transfer: what decode reserved and committed, what prefill was told and queued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine_hooks.sglang_plugin.legs import LEG, Legs, LegState

_FAILED = 0  # KVPoll.Failed (sglang.srt.disaggregation.base.conn)


@dataclass(slots=True)
class _Chunk:
    """One call of a sender's `send`, filled in as it proceeds."""

    tokens: int  # valid tokens that the scheduler says it holds
    event: Any  # set when the page ids are still being copied from the GPU
    accepted: bool  # whether the transfer manager takes chunks of this room at all
    first_page: int = 0
    contiguous: bool = True


@dataclass(frozen=True, slots=True)
class _Late:
    """A queued chunk whose page ids can be read once `event` has passed."""

    pages: Any
    event: Any
    first_page: int
    tokens: int
    sender_pages: int


class Transfer:
    """Hooks on both ends of a KV transfer, all on the scheduler's thread."""

    def __init__(self, legs: Legs) -> None:
        self._legs = legs

    # ------------------------------------------------------------------ decode

    def after_create_receiver(self, result: Any, queue: Any, req: Any, is_rebootstrap: bool = False, **_: Any) -> None:
        """`DecodePreallocQueue._create_receiver_and_enqueue`: from now on the receiver stands for the request."""
        state = self._legs.start(req)
        if state is not None:
            if is_rebootstrap:  # prefill computes the prompt again, and what was already answered with it
                state.prompt_tokens = len(req.origin_input_ids) + len(req.output_ids)
            else:
                state.prompt_tokens = len(req.origin_input_ids)
            setattr(result.kv_receiver, LEG, state)

    def before_send_metadata(
        self,
        receiver: Any,
        kv_indices: Any,
        aux_index: int | None = None,
        state_indices: Any = None,
        decode_prefix_len: int | None = None,
        destination: Any = None,
        **_: Any,
    ) -> None:
        """`<Receiver>.send_metadata`: the pages that decode wants filled, before prefill can know them."""
        state: LegState | None = getattr(receiver, LEG, None)
        recorder = self._legs.recorder
        if recorder is None or state is None or state.ended or state.destination is not None:
            return
        if getattr(destination, "name", "DEVICE") != "DEVICE":  # page ids of a host pool: another component
            self._legs.gap(state)
            return
        self._legs.admit_state(state)
        pages = kv_indices.astype("int32", copy=False)
        state.destination = self._legs.evidence.pages(pages.tobytes())
        state.prefix_tokens = decode_prefix_len or 0
        state.pages.append(pages)
        recorder.transfer_reserved(
            state.leg,
            room=state.room,
            session=_session(getattr(receiver, "kv_mgr", None)),
            destination=state.destination,
            pages=pages,
            prefix_tokens=state.prefix_tokens,
            prompt_tokens=state.prompt_tokens,
            slot=aux_index,
        )

    def before_commit(self, queue: Any, decode_req: Any, **_: Any) -> None:
        """`DecodeTransferQueue._commit_transfer_to_req`: what the request had before."""
        state = self._legs.admit(decode_req.req)
        if state is not None:
            state.outputs = len(decode_req.req.output_ids)

    def after_commit(self, result: Any, queue: Any, decode_req: Any, **_: Any) -> None:
        """Committed if the request now has one more output token: the engine returns None either way."""
        req = decode_req.req
        state = self._legs.find(req)
        recorder = self._legs.recorder
        if state is None or recorder is None:
            return
        if len(req.output_ids) == state.outputs + 1:
            recorder.transfer_committed(state.leg, prompt_tokens=len(req.origin_input_ids) + state.outputs)
        else:
            recorder.transfer_refused(state.leg)

    # ------------------------------------------------------------------ prefill

    def after_finalize_bootstrap(self, result: Any, queue: Any, req: Any, **_: Any) -> None:
        """`PrefillBootstrapQueue.finalize_bootstrap`: the destinations have arrived, one for each decode rank."""
        if not result:
            return
        state = self._legs.admit(req)
        recorder = self._legs.recorder
        if state is None or recorder is None:
            return
        sender = req.disagg_kv_sender
        setattr(sender, LEG, state)
        infos = getattr(sender.kv_mgr, "transfer_infos", {}).get(req.bootstrap_room, {})
        for session, info in list(infos.items()):
            if info.is_dummy() if callable(info.is_dummy) else info.is_dummy:  # a method in NIXL's older versions
                continue
            pages = info.dst_kv_indices
            recorder.transfer_destination(
                state.leg,
                room=state.room,
                session=str(session),
                destination=self._legs.evidence.pages(pages.astype("int32", copy=False).tobytes()),
                page_count=len(pages),
                prefix_tokens=info.decode_prefix_len or 0,
                slot=info.dst_aux_index,
            )

    def before_send(
        self,
        sender: Any,
        kv_indices: Any,
        state_indices: Any = None,
        num_kv_tokens: int | None = None,
        indices_event: Any = None,
        **_: Any,
    ) -> None:
        """`<Sender>.send`: the valid tokens of the chunk, which the calls below do not see."""
        state: LegState | None = getattr(sender, LEG, None)
        if state is not None:
            tokens = num_kv_tokens if num_kv_tokens is not None else len(kv_indices) * self._legs.limits.page_size
            state.chunk = _Chunk(tokens, indices_event, _accepts(sender))

    def after_prepare_send(self, result: Any, sender: Any, kv_indices: Any, *_: Any, **__: Any) -> None:
        """`CommonKVSender._prepare_send_indices`: which part of the chunk this rank sends, and where it belongs."""
        state: LegState | None = getattr(sender, LEG, None)
        if state is None or state.chunk is None:
            return
        chunk: _Chunk = state.chunk
        kept, where = result[0], result[1]
        if not isinstance(where, slice):
            chunk.contiguous = False
            return
        whole_start = sender.curr_idx - len(kv_indices)
        chunk.first_page = whole_start if where.start is None else where.start
        page_size = self._legs.limits.page_size
        skipped = (chunk.first_page - whole_start) * page_size
        chunk.tokens = max(0, min(chunk.tokens - skipped, len(kept) * page_size))

    def after_record_indices(self, result: Any, sender: Any, kv_indices: Any, *_: Any, **__: Any) -> None:
        """`CommonKVSender._record_transfer_indices`: the chunk is in the transfer queue."""
        state: LegState | None = getattr(sender, LEG, None)
        recorder = self._legs.recorder
        if state is None or state.ended or recorder is None or state.chunk is None:
            return
        chunk: _Chunk = state.chunk
        state.chunk = None
        if not chunk.accepted:
            return
        if not chunk.contiguous:  # page ids of a sharded pool, interleaved over the ranks
            self._legs.gap(state)
            return
        late = _Late(kv_indices, chunk.event, chunk.first_page, chunk.tokens, sender.num_kv_indices)
        state.pending.append(late)
        self.flush(state)

    def flush(self, state: LegState, *, last: bool = False) -> None:
        """Record the queued chunks whose page ids can be read by now; with `last`, give up on those that cannot.

        Waiting for the GPU is not an option, and it is never needed: the transfer itself reads the ids before the leg
        can end well.
        """
        while state.pending:
            late: _Late = state.pending[0]
            if late.event is not None and not late.event.query():
                if not last:
                    return
                state.pending.clear()
                self._legs.gap(state)
                return
            state.pending.pop(0)
            self._queued(state, late)

    def _queued(self, state: LegState, late: _Late) -> None:
        recorder = self._legs.recorder
        if recorder is None:
            return
        pages = late.pages if hasattr(late.pages, "tobytes") else late.pages.numpy()
        pages = pages.astype("int32", copy=False)
        state.pages.append(pages)
        state.queued_pages += len(pages)
        state.queued_tokens += late.tokens
        recorder.transfer_queued(
            state.leg,
            pages=pages,
            chunk_page=late.first_page,
            chunk_tokens=late.tokens,
            sender_pages=late.sender_pages,
        )


def _session(manager: Any) -> str:
    """The name under which prefill files what this decode rank sends it; `none` where there is no prefill (the
    engine's fake backend)."""
    if hasattr(manager, "get_session_id"):  # Mooncake
        return str(manager.get_session_id())
    if hasattr(manager, "engine_desc"):  # Mori
        return str(manager.engine_desc.key)
    return str(manager.agent.name) if hasattr(manager, "agent") else "none"  # NIXL


def _accepts(sender: Any) -> bool:
    """False where `add_transfer_request` will drop the chunk without a word: no manager takes one for a room that it
    does not know, and all but NIXL's drop one for a room that has failed."""
    room, manager = sender.bootstrap_room, sender.kv_mgr
    if room not in manager.transfer_infos:
        return False
    return type(manager).__name__.startswith("Nixl") or manager.request_status.get(room, _FAILED) != _FAILED
