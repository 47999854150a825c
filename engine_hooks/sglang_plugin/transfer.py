"""Transfer: what decode reserved and committed, what prefill was told and queued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine_hooks.sglang_plugin.legs import LEG, Legs, LegState
from engine_hooks.sglang_plugin.rooms import Rooms
from engine_hooks.sglang_plugin.sharing import Sharing
from engine_hooks.sglang_plugin.slots import Slots

_FAILED = 0  # KVPoll.Failed (sglang.srt.disaggregation.base.conn)


@dataclass(slots=True)
class _Chunk:
    """One call of a sender's `send`, filled in as it proceeds."""

    tokens: int  # valid tokens that the scheduler says it holds
    event: Any  # set when the page ids are still being copied from the GPU
    accepted: bool  # whether the transfer manager takes chunks of this room at all
    first_page: int = 0
    contiguous: bool = True
    last: bool | None = None  # whether the sender takes it for the last one


@dataclass(frozen=True, slots=True)
class _Late:
    """A queued chunk whose page ids can be read once `event` has passed."""

    pages: Any
    event: Any
    first_page: int
    tokens: int
    sender_pages: int
    last: bool | None
    state_pages: int


class Transfer:
    """Hooks on both ends of a KV transfer, all on the scheduler's thread."""

    def __init__(self, legs: Legs, rooms: Rooms, sharing: Sharing, slots: Slots) -> None:
        self._legs = legs
        self._rooms = rooms
        self._sharing = sharing
        self._slots = slots
        self._page_bytes: int | None = None

    # ------------------------------------------------------------------ decode

    def after_create_receiver(self, result: Any, queue: Any, req: Any, is_rebootstrap: bool = False, **_: Any) -> None:
        """`DecodePreallocQueue._create_receiver_and_enqueue`: from now on the receiver stands for the request."""
        state = self._legs.start(req, arrives=not is_rebootstrap)
        if state is not None:
            if is_rebootstrap:  # prefill computes the prompt again, and what was already answered with it
                state.prompt_tokens = len(req.origin_input_ids) + len(req.output_ids)
            else:
                state.prompt_tokens = len(req.origin_input_ids)
            setattr(result.kv_receiver, LEG, state)
            self._enter(req.bootstrap_room, state)

    def _enter(self, room: Any, state: LegState) -> None:
        """What the engine's transfer threads hear of this room is heard of this leg."""
        if not self._rooms.enter(room, state):
            self._legs.gap(state)

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
        ids = pages.tobytes()
        state.destination = self._legs.evidence.pages(ids)
        state.prefix_tokens = decode_prefix_len or 0
        state.pages.append(ids)
        recorder.transfer_reserved(
            state.leg,
            room=state.room,
            session=_session(getattr(receiver, "kv_mgr", None)),
            destination=state.destination,
            pages=pages,
            prefix_tokens=state.prefix_tokens,
            prompt_tokens=state.prompt_tokens,
            slot=aux_index,
            peers=getattr(receiver, "required_prefill_response_num", None),
            page_bytes=self._bytes_of_a_page(getattr(receiver, "kv_mgr", None)),
            state_pages=_listed(state_indices),
        )
        if state.prefix_tokens:
            self._sharing.matched(state, state.prefix_tokens)

    def _bytes_of_a_page(self, manager: Any) -> int | None:
        """Size of one page over all the buffers that the manager transfers; the same for the life of the node."""
        if self._page_bytes is None:
            lengths = getattr(getattr(manager, "kv_args", None), "kv_item_lens", None)
            self._page_bytes = None if lengths is None else sum(lengths)
        return self._page_bytes

    def before_commit(self, queue: Any, decode_req: Any, **_: Any) -> None:
        """`DecodeTransferQueue._commit_transfer_to_req`: what the request had before."""
        state = self._legs.admit(decode_req.req)
        if state is not None:
            state.outputs = len(decode_req.req.output_ids)
            if self._legs.limits.tier == "exact":
                self._slots.taken(state, queue, decode_req)

    def after_commit(self, result: Any, queue: Any, decode_req: Any, **_: Any) -> None:
        """Committed if the request now has one more output token: the engine returns None either way. False (to 0.5.12)
        means that it will ask again."""
        if result is False:
            return
        req = decode_req.req
        state = self._legs.find(req)
        recorder = self._legs.recorder
        if state is None or recorder is None:
            return
        if len(req.output_ids) == state.outputs + 1:
            recorder.transfer_committed(state.leg, prompt_tokens=len(req.origin_input_ids) + state.outputs)
        else:
            recorder.transfer_refused(state.leg)
            self._slots.refused(state, queue, decode_req)

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
        self._enter(req.bootstrap_room, state)
        infos = getattr(sender.kv_mgr, "transfer_infos", {}).get(req.bootstrap_room, {})
        wanted = {session: info for session, info in list(infos.items()) if not _is_dummy(info)}
        for session, info in wanted.items():
            pages = info.dst_kv_indices
            recorder.transfer_destination(
                state.leg,
                room=state.room,
                session=str(session),
                destination=self._legs.evidence.pages(pages.astype("int32", copy=False).tobytes()),
                page_count=len(pages),
                prefix_tokens=getattr(info, "decode_prefix_len", None) or 0,  # 0.5.11 has no prefixes on decode
                slot=info.dst_aux_index,
                peers=len(wanted),
                state_pages=_listed(getattr(info, "dst_state_indices", None)),
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
        kept, where, chunk.last = result[0], result[1], bool(result[2])
        if not isinstance(where, slice):
            chunk.contiguous = False
            return
        whole_start = sender.curr_idx - len(kv_indices)
        chunk.first_page = whole_start if where.start is None else where.start
        page_size = self._legs.limits.page_size
        skipped = (chunk.first_page - whole_start) * page_size
        chunk.tokens = max(0, min(chunk.tokens - skipped, len(kept) * page_size))

    def after_record_indices(
        self, result: Any, sender: Any, kv_indices: Any, state_indices: Any = None, **_: Any
    ) -> None:
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
        beside = _listed(state_indices) if chunk.last else 0  # the engine sends state with the last chunk only
        state.pending.append(
            _Late(kv_indices, chunk.event, chunk.first_page, chunk.tokens, sender.num_kv_indices, chunk.last, beside)
        )
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
        state.pages.append(pages.tobytes())
        state.queued_pages += len(pages)
        state.queued_tokens += late.tokens
        recorder.transfer_queued(
            state.leg,
            pages=pages,
            chunk_page=late.first_page,
            chunk_tokens=late.tokens,
            sender_pages=late.sender_pages,
            last=late.last,
            state_pages=late.state_pages,
        )


def _session(manager: Any) -> str:
    """The name under which prefill files what this decode rank sends it; `none` where there is no manager, and so no
    prefill (the engine's fake backend), `unknown` for a backend that this version does not know."""
    if manager is None:
        return "none"
    if hasattr(manager, "get_session_id"):  # Mooncake
        return str(manager.get_session_id())
    if hasattr(manager, "engine_desc"):  # Mori
        return str(manager.engine_desc.key)
    return str(manager.agent.name) if hasattr(manager, "agent") else "unknown"  # NIXL


def _is_dummy(info: Any) -> bool:
    """Whether nothing goes to this decode rank. It is a method in NIXL's older versions."""
    return bool(info.is_dummy() if callable(info.is_dummy) else info.is_dummy)


def _listed(state_indices: Any) -> int:
    """How many indices of state buffers there are: one list for each kind of state, and plain numbers in versions that
    have one kind only. Nothing but lengths is looked at."""
    if state_indices is None:
        return 0
    if hasattr(state_indices, "dtype"):
        return len(state_indices)
    parts = (part for part in state_indices if part is not None)
    return sum(len(part) if hasattr(part, "__len__") else 1 for part in parts)


def _accepts(sender: Any) -> bool:
    """False where `add_transfer_request` will drop the chunk without a word: no manager takes one for a room that it
    does not know, and all but NIXL's drop one for a room that has failed."""
    room, manager = sender.bootstrap_room, sender.kv_mgr
    if room not in manager.transfer_infos:
        return False
    return type(manager).__name__.startswith("Nixl") or manager.request_status.get(room, _FAILED) != _FAILED
