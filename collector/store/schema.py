"""The tables of evidence, written from the contract: what `migrations/0001_evidence.sql` must say.

    python -m collector.store.schema        prints it

The file is committed as text, because a migration that has run somewhere never changes. A test compares the two: when
the contract grows, the store grows by a further migration, and this module says what the tables are then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collector.store.columns import evidence_columns
from collector.store.decode import DECODED_COLUMNS, decode_view, seq_of_rejected
from collector.store.protobuf import inbox_type
from engine_hooks.conventions import SEQ

DURABLE = "fsync_after_insert = 1, fsync_part_directory = 1"
"""Table settings: an insert returns when the data is on the disk, not only in the page cache."""


def evidence_migration() -> str:
    """The text of the migration."""
    return "\n\n".join([_HEADER, *(f"{comment}\n{statement};" for comment, statement in _statements())]) + "\n"


_HEADER = """\
-- Evidence, as the contract has it (engine_hooks/conventions.py). Written by `python -m collector.store.schema`.
--
-- inbox -> decode -> decoded -> keep -> evidence      good spans
--                            -> list -> arrivals      what became of every span of the insert that is running;
--                                                     the writer copies its rejects to evidence_rejects"""


def _statements() -> Iterable[tuple[str, str]]:
    yield (
        "-- Whole export requests, as ClickHouse reads them from protobuf. Keeps nothing.",
        _table("inbox", {"received_at": "UInt64", "resource_spans": inbox_type()}, "Null"),
    )
    yield "-- One row a span, good or bad. Keeps nothing.", _table("decoded", DECODED_COLUMNS, "Null")
    yield (
        _EVIDENCE,
        _table(
            "evidence",
            {column.name: column.type for column in evidence_columns()},
            "MergeTree\nORDER BY (emitter, boot, seq)",
            indexes=(
                "INDEX by_uid uid TYPE bloom_filter(0.01) GRANULARITY 1",
                "INDEX by_received_at received_at TYPE minmax GRANULARITY 1",
                "INDEX by_time time TYPE minmax GRANULARITY 1",
            ),
        ),
    )
    yield _ARRIVALS, _table("arrivals", {**_ARRIVAL, "content_hash": "UInt64"}, "Memory")
    yield _REJECTS, _table("evidence_rejects", _ARRIVAL, "MergeTree\nORDER BY received_at")
    yield _CLAIMS, _table("claims", _CLAIM, "MergeTree\nORDER BY (emitter, boot, first_seen)")
    yield (
        _CONTRADICTIONS,
        _table("contradictions", _CONTENT, "ReplacingMergeTree\nORDER BY (emitter, boot, seq, content_hash)"),
    )
    yield "-- What a span says, read and judged by the contract.", decode_view()
    yield _KEEP, _keep_view()
    yield "-- Every span of the insert, and what became of it.", _list_view()
    yield _FACTS, _facts_view()


_ARRIVAL = {
    "received_at": "DateTime64(9, 'UTC')",
    "emitter": "LowCardinality(String)",
    "boot": "LowCardinality(String)",
    "seq": "Nullable(Int64)",
    "reason": "LowCardinality(String)",
    "unknown_attributes": "UInt32",
    "size": "UInt32",
}

_CLAIM = {"emitter": "String", "boot": "String", "token_id": "String", "first_seen": "DateTime64(9, 'UTC')"}

_CONTENT = {
    "emitter": "LowCardinality(String)",
    "boot": "LowCardinality(String)",
    "seq": "Int64",
    "content_hash": "UInt64",
}

_EVIDENCE = """\
-- One row a fact and content, as it first came. Neighbours in (emitter, boot, seq) are neighbours in time too, and the
-- facts of a leg are near each other, so the indexes skip well."""

_ARRIVALS = """\
-- What the insert that is running brought: emptied before each, for the writer only."""

_REJECTS = """\
-- Spans that were not stored and, as `unknown_attribute`, spans stored without what the contract does not know. Reasons
-- are our own words and names of the contract; there is no foreign name or value here. size: bytes, as decoded."""

_CLAIMS = """\
-- Under which token a boot of an emitter first posted. The earliest row of a boot holds."""

_CONTRADICTIONS = """\
-- Facts that came with two or more contents: each content. Empty unless an emitter contradicts itself."""

_KEEP = """\
-- Good spans, each attribute in its column, unless they are there already. (`decoded` is the block being inserted.)"""

_FACTS = """\
-- Evidence, each fact once. `contents` is 1, or 2 for a fact that came with two contents or more: a contradiction, of
-- which the content with the least hash is shown, in whatever order they came."""


def _keep_view() -> str:
    columns = ",\n    ".join(
        f"{column.decoded_in}['{column.wire_name}'] AS {column.name}" if column.wire_name else column.name
        for column in evidence_columns()
    )
    seq = f"assumeNotNull(ints['{SEQ.name}'])"
    return f"""CREATE MATERIALIZED VIEW IF NOT EXISTS keep TO evidence AS
SELECT
    {columns}
FROM decoded
WHERE reason = '' AND content_hash NOT IN (
    SELECT content_hash FROM evidence
    WHERE (emitter, boot, seq) IN (SELECT emitter, boot, {seq} FROM decoded WHERE reason = '')
)
LIMIT 1 BY content_hash"""


def _list_view() -> str:
    columns = ", ".join(f"{seq_of_rejected()} AS seq" if name == "seq" else name for name in _ARRIVAL)
    return f"""CREATE MATERIALIZED VIEW IF NOT EXISTS list TO arrivals AS
SELECT {columns}, content_hash
FROM decoded"""


def _facts_view() -> str:
    columns = ",\n    ".join(column.name for column in evidence_columns())
    return f"""CREATE VIEW IF NOT EXISTS facts AS
SELECT
    {columns},
    if(content_hash IN (SELECT content_hash FROM contradictions), 2, 1) AS contents
FROM evidence
WHERE content_hash NOT IN (
    SELECT arrayJoin(arraySlice(arraySort(groupUniqArray(content_hash)), 2)) FROM contradictions
    GROUP BY emitter, boot, seq
)"""


def _table(name: str, columns: Mapping[str, str], engine: str, *, indexes: tuple[str, ...] = ()) -> str:
    body = ",\n    ".join([*(f"{column} {kind}" for column, kind in columns.items()), *indexes])
    settings = f"\nSETTINGS {DURABLE}" if "MergeTree" in engine else ""
    return f"CREATE TABLE IF NOT EXISTS {name}\n(\n    {body}\n)\nENGINE = {engine}{settings}"


if __name__ == "__main__":
    print(evidence_migration(), end="")
