"""What detection needs of the store: rows out, rows in, one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Row = dict[str, Any]


class Queries(Protocol):
    """A handle on the store. The store's own handles satisfy it."""

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """Run a SELECT with server-side `{name:Type}` parameters; one dict a row."""
        ...

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Append rows to a table; durable when it returns."""
        ...

    def command(self, sql: str) -> None:
        """Run one statement that returns nothing."""
        ...
