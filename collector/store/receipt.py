"""What the store says about one export request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNKNOWN_ATTRIBUTE = "unknown_attribute"
"""Reason of a reject whose span was stored all the same, without what the contract does not put on it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Durably stored, as far as it was good. Counts are spans, by reason of `evidence_rejects`."""

    stored: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        """Spans that were not stored."""
        return sum(count for reason, count in self.rejects.items() if reason != UNKNOWN_ATTRIBUTE)

    def __str__(self) -> str:
        """What was not stored and why, for the sender; '' if all of it was."""
        counts = sorted(self.rejects.items())
        refused = ", ".join(f"{count} {reason}" for reason, count in counts if reason != UNKNOWN_ATTRIBUTE)
        parts = [f"{self.rejected} of {self.rejected + self.stored} spans refused: {refused}"] if refused else []
        if trimmed := self.rejects.get(UNKNOWN_ATTRIBUTE):
            parts.append(f"{trimmed} spans stored without attributes that the contract does not have")
        return "; ".join(parts)
