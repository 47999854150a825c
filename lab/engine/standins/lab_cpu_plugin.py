"""SGLang plugin that lets a prefill/decode pair run without a GPU. It changes no bookkeeping of pages.

- The KV sender may hand page ids over as pinned tensors with CUDA events; here it must use numpy arrays.
- Engines that allocate pages only with Triton kernels get the same two functions in plain Python.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any


class _Launchable:
    """What a Triton kernel looks like to its caller: ``kernel[grid](...)``."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return self._function


def fill_extend(prefix_lens: Any, seq_lens: Any, last_loc: Any, free_pages: Any, out: Any, _: int, page: int) -> None:
    """Slots for the tokens [prefix, seq) of each request: first the rest of its last page, then free pages in order.

    All are torch tensors, the lengths and `last_loc` (slot of the last prefix token) one per request; `out` takes one
    slot a token. With too few free pages it stops: the caller counts the pages itself and discards the result.
    """
    fresh = iter(free_pages.tolist())
    slots: list[int] = []
    for prefix, length, last in zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist(), strict=True):
        slot = last
        for position in range(prefix, length):
            if position % page:
                slot += 1
            else:
                number = next(fresh, None)
                if number is None:
                    return
                slot = number * page
            slots.append(slot)
    out.copy_(out.new_tensor(slots))


def fill_decode(seq_lens: Any, last_loc: Any, free_pages: Any, out: Any, _: int, page: int) -> None:
    """The slot of one more token for each request; `seq_lens` counts that token already."""
    fresh = iter(free_pages.tolist())
    for row, (length, last) in enumerate(zip(seq_lens.tolist(), last_loc.tolist(), strict=True)):
        if (length - 1) % page:
            out[row] = last + 1
            continue
        number = next(fresh, None)
        if number is None:
            return
        out[row] = number * page


def _without_triton() -> None:
    package = importlib.import_module("sglang.srt.mem_cache.allocator")
    allocator = package.PagedTokenToKVPoolAllocator
    if "use_triton_kernels" in inspect.getsource(allocator):
        return  # this engine chooses for itself
    module = inspect.getmodule(allocator)
    assert module is not None
    vars(module).update(alloc_extend_kernel=_Launchable(fill_extend), alloc_decode_kernel=_Launchable(fill_decode))


def _numpy_page_ids() -> None:
    module = importlib.import_module("sglang.srt.disaggregation.mooncake.conn")
    for value in vars(module).values():
        if isinstance(value, type) and getattr(value, "supports_host_tensor_indices", False):
            value.supports_host_tensor_indices = False  # type: ignore[attr-defined]


def register() -> None:
    """Entry point of the group ``sglang.srt.plugins``. An engine that no longer fits raises, and says so in its log."""
    _without_triton()
    _numpy_page_ids()
