"""Whose data a query may see: the tenant scope that every tenant query must carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine_hooks.identity import Key, pseudonym


@dataclass(frozen=True, slots=True)
class TenantScope:
    """One tenant as the evidence knows it: a (key id, pseudonym) for each key that ever made one.

    Several keys mean that keys were rotated: all of them are the same tenant. Raises ValueError when empty, because
    an empty scope would be a query about nobody that looks like an all-clear.
    """

    pseudonyms: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if not self.pseudonyms or not all(key and name for key, name in self.pseudonyms):
            raise ValueError("a tenant scope needs at least one pseudonym, each with the id of its key")

    @classmethod
    def of(cls, name: str, keys: Sequence[Key]) -> TenantScope:
        """The scope of the tenant with this name, under every key. Raises ValueError without a key."""
        return cls(tuple((key.id, pseudonym(key, name)) for key in keys))
