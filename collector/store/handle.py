"""A handle on the store: SQL in, rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import clickhouse_connect

Row = dict[str, Any]


class Handle:
    """One connection to the database. Safe to share between threads, but its queries then queue behind each other.

    Parameters in SQL are the server's: `{name:Type}`. Times come back as `datetime` in UTC, cut to microseconds; ask
    for `toUnixTimestamp64Nano(...)` where the rest matters. Everything raises clickhouse_connect's DatabaseError, whose
    `code` and `name` are ClickHouse's; its text can hold values of the data, so it is not for a client's eyes.
    """

    def __init__(self, data_dir: Path, database: str) -> None:
        self._client = clickhouse_connect.get_client(
            interface="chdb",
            path=str(data_dir),
            database=database,
            tz_mode="aware",
            settings={"async_insert": 0},  # it would be acknowledged from memory
        )

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Row]:
        """Run a SELECT; one dict a row."""
        return list(self._client.query(sql, parameters=dict(params or {})).named_results())

    def query(self, sql: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a SELECT; one tuple a row."""
        return [tuple(row) for row in self._client.query(sql, parameters=dict(params or {})).result_rows]

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Append rows to a table; durable when it returns, if the table is."""
        if rows:
            self._client.insert(table, rows, column_names=list(columns))

    def command(self, sql: str) -> None:
        """Run one statement that returns nothing."""
        self._client.command(sql)

    def close(self) -> None:
        """End the connection, when the query that may be running has ended. Closing twice does nothing."""
        self._client.close()
