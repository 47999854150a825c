"""What the newest version of the contract changes in the store: what its migration must say.

    python -m collector.store.schema        prints it

A migration is committed as text, because one that has run somewhere never changes; a test compares this one with the
contract. Migration 0001 made the tables for version 1 of the contract. Each later version has a migration that adds the
columns of its attributes and puts views in place that know its spans. What an older version recorded stays as it is:
the columns that it did not know are absent there.
"""

from __future__ import annotations

from collections.abc import Iterable

from collector.store.columns import added_columns, evidence_columns
from collector.store.decode import decode_view
from engine_hooks.conventions import CONTRACT_VERSION, SEQ

DURABLE = "fsync_after_insert = 1, fsync_part_directory = 1"
"""Table settings: an insert returns when the data is on the disk, not only in the page cache."""


def contract_migration() -> str:
    """The text of the migration. Each of its statements can run again."""
    return "\n\n".join([_HEADER, *(f"{comment}\n{statement};" for comment, statement in _statements())]) + "\n"


_HEADER = f"""\
-- Version {CONTRACT_VERSION} of the contract, written from it by `python -m collector.store.schema`.
--
-- inbox -> decode -> decoded -> keep -> evidence      good spans
--                            -> list -> arrivals      what became of every span of the insert that is running"""


def _statements() -> Iterable[tuple[str, str]]:
    yield "-- The columns of the attributes that it brought.", _new_columns()
    yield "-- What a span says, read and judged by the contract.", "DROP VIEW IF EXISTS decode"
    yield "-- Its constants are the contract's.", decode_view()
    yield _KEEP, "DROP VIEW IF EXISTS keep"
    yield "-- One column an attribute.", _keep_view()
    yield _FACTS, "DROP VIEW IF EXISTS facts"
    yield "-- The columns of evidence, and one more.", _facts_view()


def _new_columns() -> str:
    """Each behind the column that it follows in the contract."""
    names = [column.name for column in evidence_columns()]
    lines = [
        f"    ADD COLUMN IF NOT EXISTS {one.name} {one.type} AFTER {names[names.index(one.name) - 1]}"
        for one in added_columns()
    ]
    return "ALTER TABLE evidence\n" + ",\n".join(lines)


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


if __name__ == "__main__":
    print(contract_migration(), end="")
