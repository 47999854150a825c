"""Queries across tenants: for the operator's own views and the state of the service, never for a tenant's answer.

Only the modules that say "operator" in their own text may import this; a test holds the list.
"""

from __future__ import annotations

from typing import Any

from detectors.queries import Queries, Row


class OperatorStore:
    """Reads the store without a tenant."""

    def __init__(self, handle: Queries) -> None:
        self._handle = handle

    def rows(self, sql: str, **params: Any) -> list[Row]:
        """Rows of a SELECT with `{name:Type}` parameters."""
        return self._handle.rows(sql, params)
