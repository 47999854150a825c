"""Release: every page that a leg held, recorded before the engine gives it to somebody else."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

from engine_hooks.sglang_plugin.copies import Copies
from engine_hooks.sglang_plugin.dialects import kv_of
from engine_hooks.sglang_plugin.host_tier import HostTier
from engine_hooks.sglang_plugin.legs import Legs, LegState
from engine_hooks.sglang_plugin.sharing import Sharing, is_kept
from engine_hooks.sglang_plugin.transfer import Transfer


class Release:
    """Hooks on the ways in which a request gives its pages up."""

    def __init__(self, legs: Legs, transfer: Transfer, copies: Copies, sharing: Sharing, host_tier: HostTier) -> None:
        self._legs = legs
        self._transfer = transfer
        self._copies = copies
        self._sharing = sharing
        self._host_tier = host_tier

    def before_retract(self, *, req: Any, **_: Any) -> None:
        """`release_req`: the engine takes the pages back to make room; the request will run again."""
        self._mark(req, "retract")

    def before_requeue(self, scheduler: Any, req: Any, **_: Any) -> None:
        """`optimistic_release_and_requeue`: prefill gives an early start up; the request will run again."""
        self._mark(req, "retract")

    def before_release(self, req: Any, tree_cache: Any, *rest: Any, **named: Any) -> None:
        """`release_kv_cache`: the end of the leg's hold on its pages."""
        if not kv_of(req).holds_kv:
            return
        state = self._legs.admit(req)
        recorder = self._legs.recorder
        if state is None or recorder is None or state.released:
            return
        state.released = True
        self._transfer.flush(state, last=True)
        if state.read_tokens > state.first_read:
            recorder.read(
                state.leg,
                phase="last",
                tokens=state.read_tokens,
                row=state.row,
                row_generation=state.row_generation,
            )
        committed = kv_of(req).kv_committed_len
        if self._legs.limits.prefix_cache and is_kept(rest, named):
            self._publish(state, req, committed)
        self._with_held(state, req, tree_cache, partial(self._record, state, state.mode, committed))
        if state.responded:
            self._legs.end(state, how_it_ended(state))

    def before_reset(self, req: Any, **_: Any) -> None:
        """`Req.reset_for_retract`: this attempt is over; the next one is another leg."""
        state = self._legs.find(req)
        if state is not None:
            self._transfer.flush(state, last=True)
            self._legs.end(state, "retracted")

    def before_publish(self, req: Any, tree_cache: Any, *_: Any, **__: Any) -> None:
        """A running request's pages go into the prefix cache, which may take other pages for them."""
        state = self._legs.find(req)
        if state is not None and shares_prefixes(tree_cache):
            self._publish(state, req, state.computed_end or state.prompt_tokens)
            state.published = before = []
            # a copy: the row is the engine's, and about to change
            self._with_slots(
                state, req, tree_cache, lambda slots, _: before.append(None if slots is None else slots.tobytes())
            )

    def after_publish(self, result: Any, req: Any, tree_cache: Any, *_: Any, **__: Any) -> None:
        """Pages that the cache already had under the same key replace the request's own, which are free from here on:
        the leg held them, wrote them, and will not name them when it ends."""
        state = self._legs.find(req)
        if state is None or state.published is None:
            return
        before, state.published = state.published, None
        self._with_slots(state, req, tree_cache, partial(self._replaced, state, before, kv_of(req).kv_committed_len))

    def _publish(self, state: LegState, req: Any, tokens: int) -> None:
        self._host_tier.publishing(state)
        self._sharing.published(state, req, tokens)

    def _replaced(
        self, state: LegState, before: list[bytes | None], committed: int, after: Any, after_seq: int | None
    ) -> None:
        (held,) = before
        if held is None or after is None:
            self._legs.gap(state)
            return
        if held == after.tobytes():
            return
        old = memoryview(held).cast(after.dtype.char)
        new = memoryview(after.tobytes()).cast(after.dtype.char)
        changed = [place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
        if changed:
            page_size = self._legs.limits.page_size
            pages = array("i", [slot // page_size for slot in old[: changed[-1] + 1]])
            self._record(state, "evict", committed, pages, after_seq)
            state.shared_end = len(pages) * page_size

    def _with_held(self, state: LegState, req: Any, tree_cache: Any, use: Callable[[Any, int | None], None]) -> None:
        """Call `use` with the ids of the pages in the request's row, one a page, in token order (None if they never
        arrive), and the seq after which the row held them. On a device that is later; the leg's end waits for it."""
        page_size = self._legs.limits.page_size

        def divided(slots: Any, after_seq: int | None) -> None:
            use(None if slots is None else (slots // page_size).astype("int32", copy=False), after_seq)

        self._with_slots(state, req, tree_cache, divided)

    def _with_slots(self, state: LegState, req: Any, tree_cache: Any, use: Callable[[Any, int | None], None]) -> None:
        """The same with the first slot of each page, as the row has it."""
        kv = kv_of(req)
        row = (kv.req_pool_idx, slice(0, kv.kv_allocated_len, self._legs.limits.page_size))
        state.waiting += 1

        def arrived(slots: Any, after_seq: int | None) -> None:
            try:
                use(slots, after_seq)
            finally:
                self._legs.arrived(state)

        self._copies.take_part(tree_cache.req_to_token_pool.req_to_token, row, arrived)

    def _record(self, state: LegState, mode: str, committed: int, pages: Any, after_seq: int | None) -> None:
        recorder = self._legs.recorder
        if recorder is None:
            return
        start, end = self._written(state, committed)
        start = max(start, state.shared_end)
        if state.unsure:  # a forward may have gone unseen
            end = max(end, committed)
        recorder.release(
            state.leg,
            mode=mode,
            pages=_joined(state.pages) if pages is None else pages,
            complete=pages is not None and not state.unsure,
            prefix_tokens=max(self._prefix(state), state.shared_end),
            written_start=start,
            written_end=max(start, end),
            after_seq=after_seq,
        )

    def _prefix(self, state: LegState) -> int:
        return state.prefix_tokens if self._legs.limits.role == "decode" else state.computed_start or 0

    def _written(self, state: LegState, committed: int) -> tuple[int, int]:
        """Token positions that the leg's own forwards wrote; never what was merely allocated for it."""
        if state.restored:  # loaded back from the backup of an earlier leg of the same request
            return 0, committed
        if self._legs.limits.role == "decode":
            start = state.prompt_tokens
        elif state.computed_start is None:
            return 0, 0
        else:
            start = state.computed_start
        # a length that was committed without a step is only what the engine set it to when it allocated
        end = committed if state.read_tokens else state.computed_end
        return start, end

    def _mark(self, req: Any, mode: str) -> None:
        state = self._legs.find(req)
        if state is not None:
            state.mode = mode


def how_it_ended(state: LegState) -> str:
    """A word of `pagewitness.end.state` for a leg whose answer is out."""
    if state.finish != "abort":
        return "finished"
    if state.rejected_status is not None and state.aborted_status == state.rejected_status:
        return "rejected"
    if state.client_abort or state.aborted_status is None or state.aborted_status < 500:
        return "aborted"
    return "failed"


def shares_prefixes(tree_cache: Any) -> bool:
    """Whether the cache keeps pages of finished requests for others (0.5.23 has another name for the question)."""
    if getattr(tree_cache, "disable", False):
        return False
    asked = getattr(tree_cache, "supports_prefix_sharing", None)
    return bool(asked()) if asked is not None else not tree_cache.is_chunk_cache()


def _joined(lists: list[bytes]) -> Any:
    return memoryview(b"".join(lists)).cast("i")
