"""The keyed digest of a request id, as the evidence carries it: all that truth and evidence have in common."""

from __future__ import annotations

from engine_hooks.identity import EvidenceKey, parse_keys
from lab.engine import keys


def rid_digest(rid: str) -> str:
    """32 hex digits, made with the evidence key of the lab."""
    (key,) = parse_keys(keys.EVIDENCE_KEY)
    return EvidenceKey(key).rid(rid).hex()
