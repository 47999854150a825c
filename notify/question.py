"""What a tenant question asks for: whose answer, which window, which scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from notify.answers import DEFAULT_SCOPES, SCOPES, VERDICTS, IncidentRef, Scope, Verdict, Window
from notify.errors import UsageError
from notify.scope import TenantScope
from notify.times import iso, utc

DEFAULT_VERDICTS: tuple[Verdict, ...] = ("violation", "unknown", "pending")

Word = TypeVar("Word", bound=str)


@dataclass(frozen=True, slots=True)
class Span:
    """Moments [start, end) in UTC; None leaves that side open. Raises UsageError where it is empty."""

    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        if self.start and self.end and self.start >= self.end:
            raise UsageError(f"the window is empty: {iso(self.start)} is not before {iso(self.end)}")

    def condition(self) -> str:
        """SQL: a response with the columns `started` and `ended` was in progress at some time in the window.

        By overlap, so that a response that was running when an incident began is in the incident's window. One whose
        end was never seen counts as running on.
        """
        parts = []
        if self.end:
            parts.append("started < {window_end:DateTime64(9, 'UTC')}")
        if self.start:
            parts.append("(ended IS NULL OR ended >= {window_start:DateTime64(9, 'UTC')})")
        return " AND ".join(parts) or "true"

    def params(self) -> dict[str, Any]:
        """Parameters of `condition`."""
        sides = {"window_start": self.start, "window_end": self.end}
        return {name: utc(side).strftime("%Y-%m-%d %H:%M:%S.%f") for name, side in sides.items() if side}

    def shown(self) -> Window:
        """As an answer repeats it."""
        start, end = (iso(side) if side else None for side in (self.start, self.end))
        return Window.model_validate({"from": start, "to": end})


@dataclass(frozen=True, slots=True)
class Question:
    """One tenant, one window, the scopes to list. `keys_seen` are the ids of keys under which it has evidence.

    `include_unsure` asks for the unknown and pending responses as well.
    """

    tenant: str
    scope: TenantScope
    keys_seen: tuple[str, ...]
    window: Span
    scopes: tuple[Scope, ...]
    incident: IncidentRef | None = None
    include_unsure: bool = False


def parse_scopes(text: str | None) -> tuple[Scope, ...]:
    """Scopes from a comma-separated list, ``all``, or None for the default. Raises UsageError."""
    return DEFAULT_SCOPES if text is None else _chosen(text, SCOPES, "scope")


def parse_verdicts(text: str | None) -> tuple[Verdict, ...]:
    """Verdicts from a comma-separated list or ``all``; None is all but ``clean``. Raises UsageError."""
    return DEFAULT_VERDICTS if text is None else _chosen(text, VERDICTS, "verdict")


def parse_include(text: str | None, role: str) -> bool:
    """Whether unknown and pending responses are to be listed as well. Raises UsageError."""
    if text is None:
        return False
    if text != "unknown":
        raise UsageError(f"cannot include {text!r}: the only choice is unknown (unknown and pending responses)")
    if role == "donor":
        raise UsageError(
            "of a donor's question the unknown responses are other tenants', who might have read its KV: they are "
            "counted, and cannot be listed (include unknown is for the role recipient)"
        )
    return True


def _chosen(text: str, known: tuple[Word, ...], what: str) -> tuple[Word, ...]:
    named = [part.strip() for part in text.split(",") if part.strip()]
    if named == ["all"]:
        return known
    strangers = sorted(set(named) - set(known))
    if strangers or not named:
        raise UsageError(f"unknown {what} {', '.join(strangers) or repr(text)}: choose of {', '.join(known)}, or all")
    return tuple(word for word in known if word in named)


def tally(rows: Sequence[dict[str, Any]], name: str, count: str = "n") -> dict[str, int]:
    """Rows of (name, count) as a dict, most frequent first."""
    return {row[name]: row[count] for row in sorted(rows, key=lambda row: (-row[count], row[name]))}
