"""Whether the facts of a request fit together: numbers that contradict each other cannot support `clean`.

Ordinals say that no fact is missing. They do not say that the facts make sense: a leg that delivered tokens without a
reservation, or a chunk with more tokens than its pages hold, was recorded wrongly, or by somebody else.
"""

from __future__ import annotations

from detectors.joins import Join
from detectors.legs import Leg


def decode_fits(leg: Leg) -> bool:
    """Whether the facts of a decode leg that has ended can all be true of one request."""
    if not _acquired_fit(leg):
        return False
    worked = leg.committed or leg.read_tokens is not None or bool(leg.tokens_delivered) or bool(leg.output_tokens)
    if not worked:
        return True
    if leg.reserved_pages is None or not leg.committed or leg.prompt_tokens is None or not leg.released:
        return False
    if leg.need_tokens is not None and leg.need_tokens != leg.prompt_tokens:
        return False
    if leg.releases > 1:  # it gave its pages up twice
        return False
    return (leg.output_tokens or 0) <= 1 or (leg.read_tokens or 0) > leg.prompt_tokens


def prefill_fits(leg: Leg, page_size: int) -> bool:
    """Whether the facts of a prefill leg that has ended can all be true of one request."""
    if not _acquired_fit(leg):
        return False
    pages = sum(len(chunk.pages) for chunk in leg.chunks)
    tokens = sum(chunk.tokens for chunk in leg.chunks)
    if (leg.queued_pages, leg.queued_tokens) != (pages, tokens):
        return False
    if any(chunk.tokens > len(chunk.pages) * page_size for chunk in leg.chunks):
        return False
    if (leg.chunks and not leg.released) or leg.releases > 1:
        return False
    # what its forwards wrote begins where its cache ends
    return leg.written_start is None or leg.written_start <= (leg.cached_tokens or 0)


def _acquired_fit(leg: Leg) -> bool:
    """Whether the acquire facts name as many pages as the leg says they do, where it says so (exact tier)."""
    return leg.acquired_pages is None or leg.acquired_pages == leg.acquired_seen


def _prompts_differ(join: Join) -> bool:
    """Whether the two legs took in prompts of different length: then one of them belongs to somebody else."""
    lengths = {leg.need_tokens for leg in (join.decode, join.prefill) if leg is not None}
    return len(lengths - {None}) > 1


def faults(join: Join, decode_page_size: int, prefill_page_size: int) -> list[str]:
    """Reasons, as in `detectors.verdicts.REASONS`, for which a joined and ended request cannot be called clean."""
    found = [] if decode_fits(join.decode) else ["decode_incoherent"]
    if join.prefill is not None:
        if decode_page_size != prefill_page_size:
            found.append("page_size_mismatch")
        if not prefill_fits(join.prefill, prefill_page_size):
            found.append("prefill_incoherent")
        if _prompts_differ(join):
            found.append("prompt_mismatch")
        if not _transfer_fits(join):
            found.append("join_mismatch")
    if not _pages_reach(join.decode, decode_page_size):
        found.append("decode_incoherent")
    return sorted(set(found))


def _transfer_fits(join: Join) -> bool:
    """Whether prefill sent no more pages than decode had reserved, behind the prefix that decode had told it of."""
    decode, prefill = join.decode, join.prefill
    if prefill is None or decode.reserved_pages is None:
        return True
    if sum(len(chunk.pages) for chunk in prefill.chunks) > decode.reserved_pages:
        return False
    return prefill.prefix_tokens is None or prefill.prefix_tokens == decode.prefix_tokens


def _pages_reach(leg: Leg, page_size: int) -> bool:
    """Whether the pages that the leg gave up hold as many tokens as it read."""
    if leg.released_pages is None or leg.read_tokens is None:
        return True
    return leg.released_pages * page_size >= leg.read_tokens
