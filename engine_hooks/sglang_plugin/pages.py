"""Pages, exact tier: what the allocator gives and takes back, and which instance of a page each time.

The engine does not count how often a page was acquired; this module does, for the pool that holds the KV. It sees an
acquisition where the engine's own callers make it, because only they know the leg. One that none of them made shows
when the page is freed: the count goes up then, so a generation is never given twice.
"""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.copies import Copies
from engine_hooks.sglang_plugin.dialects import kv_of, row_of
from engine_hooks.sglang_plugin.legs import Legs, LegState


class Pages:
    """Hooks on allocation and free, all on the scheduler's thread."""

    def __init__(self, legs: Legs, copies: Copies) -> None:
        self._legs = legs
        self._copies = copies
        self._cause = "release"
        self._counts: Any = None  # numpy int32, by page
        self._held: Any = None  # numpy bool, by page

    # ------------------------------------------------------------------ acquired

    def after_extend(self, result: Any, batch: Any, *_: Any, **__: Any) -> None:
        """`alloc_for_extend`: for each request, the slots of token positions [prefix, end)."""
        takers = []
        begin = 0
        for req, start, length in zip(batch.reqs, batch.prefix_lens, batch.extend_lens, strict=False):
            state = self._legs.admit(req)
            if state is not None:
                takers.append((state, begin, start, length, row_of(req)))
            begin += length
        if not takers:
            return
        page_size = self._legs.limits.page_size

        def use(slots: Any, after_seq: int | None) -> None:
            for state, at, start, length, row in takers:
                skipped = -start % page_size  # the first page that is new begins this far on
                pages = None if slots is None else slots[at + skipped : at + length : page_size] // page_size
                if skipped < length:
                    self._acquired(state, "prefill", pages, start + skipped, row, after_seq)

        self._wait([taker[0] for taker in takers], result[0], use)

    def after_decode(self, result: Any, batch: Any, token_per_req: int = 1, *_: Any, **__: Any) -> None:
        """`alloc_for_decode`: one more slot for each request, a new page where the one before is full."""
        page_size = self._legs.limits.page_size
        lengths = batch.seq_lens_cpu.tolist()  # before the step
        new = [place for place, tokens in enumerate(lengths) if not tokens % page_size]
        if not new:
            return
        takers = []
        for place in new:
            req = batch.reqs[place]
            state = self._legs.admit(req)
            if state is not None:
                takers.append((place, state, lengths[place], row_of(req)))

        def use(slots: Any, after_seq: int | None) -> None:
            if slots is None:
                for _, state, start, row in takers:
                    self._acquired(state, "decode", None, start, row, after_seq)
                return
            # all pages at once: with one of each request, numpy would take longer to begin than to count
            ids = (slots[[taker[0] for taker in takers]] // page_size).astype("int32", copy=False)
            generations = self._take(ids)
            for at, (_, state, start, row) in enumerate(takers):
                one = slice(at, at + 1)
                self._record(state, "decode", ids[one], generations[one], start, row, after_seq)

        if takers:
            self._wait([taker[1] for taker in takers], result, use)

    def after_prealloc(self, result: Any, queue: Any, req: Any, *_: Any, **__: Any) -> None:
        """`DecodePreallocQueue._pre_alloc`: the slots past the prefix, for a transfer or for KV that is loaded back."""
        state = self._legs.admit(req)
        if state is None or not hasattr(result, "numel"):
            return
        page_size = self._legs.limits.page_size
        start = kv_of(req).kv_committed_len - result.numel()
        skipped = -start % page_size
        purpose = "load" if state.restored else "transfer"
        row = row_of(req)

        def use(slots: Any, after_seq: int | None) -> None:
            pages = None if slots is None else slots[skipped::page_size] // page_size
            self._acquired(state, purpose, pages, start + skipped, row, after_seq)

        if skipped < result.numel():
            self._wait([state], result, use)

    def _wait(self, states: list[LegState], slots: Any, use: Any) -> None:
        """Have `use` called with the slots; until then no leg among these ends."""
        for state in states:
            state.waiting += 1

        def used(numbers: Any, after_seq: int | None) -> None:
            try:
                use(numbers, after_seq)
            finally:
                for state in states:
                    self._legs.arrived(state)

        self._copies.take(slots, used)

    def _acquired(
        self, state: LegState, purpose: str, pages: Any, start: int, row: int | None, after_seq: int | None
    ) -> None:
        if pages is None:
            if self._legs.recorder is not None:
                self._legs.gap(state)
            return
        ids = pages.astype("int32", copy=False)
        self._record(state, purpose, ids, self._take(ids), start, row, after_seq)

    def _record(
        self,
        state: LegState,
        purpose: str,
        ids: Any,
        generations: Any,
        start: int,
        row: int | None,
        after_seq: int | None,
    ) -> None:
        recorder = self._legs.recorder
        if recorder is None:
            return
        state.acquired_pages += len(ids)
        recorder.acquire(
            state.leg,
            purpose=purpose,
            pages=ids,
            acquired_from=start,
            generations=generations,
            row=row,
            after_seq=after_seq,
        )

    # ------------------------------------------------------------------ freed

    def before_release_ids(self, allocator: Any, *page_ids: Any, **_: Any) -> None:
        """`PagedTokenToKVPoolAllocator._release_page_ids` (0.5.17 on): these pages go back to the free list now."""
        if self._is_kv(allocator):
            for ids in page_ids:
                self._freed(ids, 1)

    def before_free(self, allocator: Any, free_index: Any, **_: Any) -> None:
        """`free` of the older paged allocator and of the one with single slots: token slots go back, unless a group
        collects them for later."""
        if self._is_kv(allocator) and free_index.numel() and not _grouping(allocator):
            self._freed(free_index, self._legs.limits.page_size)

    def before_evict(self, *_: Any, **__: Any) -> None:
        """`RadixCache.evict`: what is freed from here on was only cached."""
        self._cause = "evict"

    def after_evict(self, *_: Any, **__: Any) -> None:
        """The eviction is over."""
        self._cause = "release"

    def _freed(self, numbers: Any, slots_a_number: int) -> None:
        cause = self._cause

        def use(found: Any, after_seq: int | None) -> None:
            recorder = self._legs.recorder
            if recorder is None:
                return
            if found is None:
                recorder.hook_error()
                return
            ids = found if slots_a_number == 1 else _unique(found // slots_a_number)
            ids = ids.astype("int32", copy=False)
            recorder.free(cause=cause, pages=ids, generations=self._give(ids), after_seq=after_seq)

        self._copies.take(numbers, use)

    # ------------------------------------------------------------------ instances

    def _is_kv(self, allocator: Any) -> bool:
        """Whether an allocator is the one of the KV pool: a sliding-window pool beside it numbers pages of its own."""
        kv = self._legs.limits.allocator
        return kv is None or kv() is allocator

    def _take(self, ids: Any) -> Any:
        counts, held = self._pool(ids)
        counts[ids] += 1
        held[ids] = True
        return counts[ids]

    def _give(self, ids: Any) -> Any:
        counts, held = self._pool(ids)
        counts[ids] += ~held[ids]  # it was acquired unseen
        held[ids] = False
        return counts[ids]

    def _pool(self, ids: Any) -> tuple[Any, Any]:
        import numpy

        most = int(ids.max()) if len(ids) else 0
        if self._counts is None or most >= len(self._counts):
            size = max(self._legs.limits.pool_pages + 1, most + 1)
            counts, held = numpy.zeros(size, "int32"), numpy.zeros(size, "bool")
            if self._counts is not None:
                counts[: len(self._counts)], held[: len(self._held)] = self._counts, self._held
            self._counts, self._held = counts, held
        return self._counts, self._held


def _grouping(allocator: Any) -> bool:
    """Whether a group of frees is open: the allocator is called again when it closes."""
    if hasattr(allocator, "is_not_in_free_group"):  # to 0.5.16
        return not allocator.is_not_in_free_group
    return getattr(allocator, "free_group", None) is not None


def _unique(ids: Any) -> Any:
    import numpy

    return numpy.unique(ids)
