"""How much of a decode leg's prompt the transfer can have written.

Exact where the prefill leg is complete. Where facts of it are missing, an upper bound from any one fact that implies
one: a bound below what was read is still proof, because no missing fact can raise it.
"""

from __future__ import annotations

from collections.abc import Sequence

from detectors.legs import Chunk, Leg

PLACEHOLDER_TOKENS = 1
"""SGLang replaces the prompt of a rejected request by one token (`Req.set_finish_with_abort`)."""


def contiguous_tokens(chunks: Sequence[Chunk], page_size: int, prefix: int) -> int:
    """First token position, from 0, that neither the prefix nor a chunk in an unbroken row covers.

    `prefix` tokens were on the node before; chunk positions count pages past it.
    """
    end = prefix
    for chunk in sorted(chunks, key=lambda item: (item.first_page, item.tokens)):
        start = prefix + chunk.first_page * page_size
        if start > end:
            return end
        end = max(end, start + chunk.tokens)
    return end


MOST_TOKENS = 1 << 62
"""What a column can hold; no sum of claims is taken for more."""


def covered_tokens(decode: Leg, prefill: Leg | None, page_size: int) -> int | None:
    """One past the last token position, from 0, that can hold KV written for this request before decode's own.

    Without a prefill node (the engine's fake backend) nothing but the prefix can. None where nothing bounds it. Raises
    ValueError if `page_size` is not positive.
    """
    if page_size <= 0:
        raise ValueError(f"page size must be positive, not {page_size}")
    prefix = decode.prefix_tokens
    if prefix is None and prefill is not None:
        prefix = prefill.prefix_tokens
    prefix = prefix or 0
    if prefill is None:
        return prefix if decode.alone else None
    if prefill.sends_known:
        sent = contiguous_tokens(prefill.chunks, page_size, prefix)
        # what was sent beyond what prefill's own forwards computed was never written either
        return min(sent, MOST_TOKENS if prefill.written_end is None else max(prefix, prefill.written_end))
    bounds = []
    if prefill.sender_pages is not None:
        bounds.append(prefix + prefill.sender_pages * page_size)
    if prefill.written_end is not None:
        bounds.append(max(prefix, prefill.written_end))
    if prefill.queued_tokens is not None:
        bounds.append(prefix + prefill.queued_tokens)
    if prefill.rejected:
        bounds.append(prefix + PLACEHOLDER_TOKENS)
    return min(*bounds, MOST_TOKENS) if bounds else None
