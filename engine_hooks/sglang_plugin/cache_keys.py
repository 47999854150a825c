"""What a prefix cache's key is made of, beside the tokens: read off the running engine, not assumed."""

from __future__ import annotations

import inspect
from typing import Any

from engine_hooks.identity import EvidenceKey


def namespace(evidence: EvidenceKey, request: Any) -> bytes | None:
    """Keyed digest of what keeps a request's cache entries apart from those of others, or None where nothing does.

    `Req.extra_key` has the adapter's id in it already, and before 0.5.18 the salt too; from there on the salt is an
    attribute and a field of the key of its own.
    """
    return evidence.namespace(_text(getattr(request, "extra_key", None)), _text(getattr(request, "cache_salt", None)))


def composition() -> bytes:
    """Words of `pagewitness.key.composition` for this engine's radix cache, joined by line breaks.

    Raises ImportError or AttributeError where the engine keeps its key somewhere else.
    """
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.radix_cache import RadixKey

    fields = inspect.signature(RadixKey.__init__).parameters
    words = ["tokens", *(name for name in ("cache_salt", "extra_key") if name in fields)]
    if "extra_key" in fields and "lora_id" in inspect.signature(Req.__init__).parameters:
        words.append("lora")  # the engine appends it to the extra key
    return "\n".join(words).encode()


REQUEST_ONLY = b"request"
"""Key composition of a backup that no other request can find: it hangs on the request."""


def _text(part: Any) -> str | None:
    return part if part is None or isinstance(part, str) else type(part).__name__
