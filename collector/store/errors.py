"""How the store fails, in words that a sender may see."""

from __future__ import annotations


class BodyRefusedError(Exception):
    """The store cannot read this body, and never will: nothing of it was stored."""


class StoreFailedError(Exception):
    """The store could not take it now. Perhaps it is there and perhaps not: sending it again is safe."""
