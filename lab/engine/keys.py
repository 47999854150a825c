"""Keys of the lab: public on purpose, so that anybody can replay a capture and read its truth.

They are derived from a published phrase and protect nothing. A real deployment draws its own keys at random.
The form ``id:hex`` is that of `engine_hooks.identity.parse_keys`.
"""

from __future__ import annotations

import hashlib

PHRASE = "pagewitness lab: public, never for real use"
"""What the three keys are derived from."""


def _key(key_id: str) -> str:
    secret = hashlib.blake2b(PHRASE.encode(), digest_size=32, person=key_id.encode()).hexdigest()
    return f"{key_id}:{secret}"


PSEUDONYM_KEY = _key("lab-p")
"""Makes the pseudonyms of the lab's tenants."""

MAC_KEY = _key("lab-m")
"""Vouches for the `cache_salt` of the lab's requests."""

EVIDENCE_KEY = _key("lab-e")
"""Digests `rid` and the other client-chosen values of the lab's traffic."""
