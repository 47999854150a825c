"""Targets of the exact tier: pages acquired, written, stepped over and freed. Read in the source; see `targets`."""

from __future__ import annotations

from engine_hooks.sglang_plugin.targets import OLDEST, Target, Version

_MEMORY = "sglang.srt.mem_cache."
_ALLOCATION_MOVED: Version = (0, 5, 16)  # from mem_cache.common to mem_cache.allocation
_RELEASES_IDS: Version = (0, 5, 17)  # the first with one place through which every page of the paged pool goes back


def _allocation(function: str, handler: str, uses: tuple[str, ...], cost: str) -> tuple[Target, ...]:
    facts = ("page.acquire",)
    old, new = f"{_MEMORY}common.{function}", f"{_MEMORY}allocation.{function}"
    before = (0, 5, 15)
    return (
        Target(old, "after", handler, facts, uses, "", OLDEST, before, tier="exact", cost=cost),
        Target(new, "after", handler, facts, uses, "", _ALLOCATION_MOVED, None, tier="exact", cost=cost),
    )


def _free(path: str, name: str, uses: tuple[str, ...], since: Version, until: Version | None) -> Target:
    handler = "pages.before_release_ids" if name == "_release_page_ids" else "pages.before_free"
    return Target(
        f"{_MEMORY}{path}.{name}", "before", handler, ("page.free",), uses, "", since, until, tier="exact", cost="group"
    )


def _evict(when: str) -> Target:
    path = _MEMORY + "radix_cache.RadixCache.evict"
    return Target(path, when, f"pages.{when}_evict", ("page.free.cause",), tier="exact", cost="rare")


PAGES: tuple[Target, ...] = (
    *_allocation("alloc_for_extend", "pages.after_extend", ("batch",), "step"),
    *_allocation("alloc_for_decode", "pages.after_decode", ("batch", "token_per_req"), "step"),
    Target(
        "sglang.srt.disaggregation.decode.DecodePreallocQueue._pre_alloc", "after", "pages.after_prealloc",
        ("page.acquire",), ("req",), tier="exact",
    ),
    _free("allocator.PagedTokenToKVPoolAllocator", "free", ("free_index",), OLDEST, (0, 5, 16)),
    _free("allocator.paged.PagedTokenToKVPoolAllocator", "_release_page_ids", ("page_ids",), _RELEASES_IDS, None),
    _free("allocator.TokenToKVPoolAllocator", "free", ("free_index",), OLDEST, None),
    _evict("before"),
    _evict("after"),
    Target(
        "sglang.srt.managers.scheduler.Scheduler.run_batch", "after", "exact_steps.after_run_batch",
        ("page.step", "page.write", "page.read", "page.release"), ("batch",), tier="exact", cost="step",
    ),
)  # fmt: skip
