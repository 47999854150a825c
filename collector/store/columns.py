"""The columns of evidence, from the contract: one row a span, one column an attribute (two for a page list)."""

from __future__ import annotations

from dataclasses import dataclass

from engine_hooks.conventions import CONTRACT_VERSION, SEQ, SPANS, Attribute, Type, attributes, column, fields_of

TYPES = {
    Type.INT: "Nullable(Int64)",
    Type.BOOL: "Nullable(Bool)",
    Type.ENUM: "LowCardinality(String)",
    Type.DIGEST: "String",
    Type.TEXT: "LowCardinality(String)",
    Type.TEXTS: "Array(String)",
    Type.PAGES: "Array(Int64)",
    Type.PER_PAGE: "Array(Int64)",
    Type.INTS: "Array(Int64)",
}
"""Type of the column, by type of the attribute. Absent is NULL for a number or a truth value, else '' or []."""

IN_DECODED = {
    Type.INT: "ints",
    Type.BOOL: "flags",
    Type.ENUM: "words",
    Type.DIGEST: "words",
    Type.TEXT: "words",
    Type.TEXTS: "word_lists",
    Type.PAGES: "int_lists",
    Type.PER_PAGE: "int_lists",
    Type.INTS: "int_lists",
}
"""Which map of the table `decoded` holds an attribute's value."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its ClickHouse type, and the attribute of the contract that fills it, if one does."""

    name: str
    type: str
    wire_name: str = ""
    decoded_in: str = ""


RECEIVED_AT = Column("received_at", "DateTime64(9, 'UTC')")
IDENTITY = (Column("emitter", "LowCardinality(String)"), Column("boot", "LowCardinality(String)"))
OF_THE_SPAN = (
    Column("contract", "Int64"),
    Column("span", "LowCardinality(String)"),
    Column("uid", "String"),
    Column("time", "DateTime64(9, 'UTC')"),
)
CONTENT_HASH = Column("content_hash", "UInt64")


def attribute_columns() -> tuple[Column, ...]:
    """The columns that attributes fill, in the order of the contract."""
    return tuple(_column(one, wire_name) for one in attributes() for wire_name in one.wire_names)


def evidence_columns() -> tuple[Column, ...]:
    """Every column of the table `evidence`, in order."""
    return (RECEIVED_AT, *IDENTITY, *OF_THE_SPAN, *attribute_columns(), CONTENT_HASH)


def added_columns(version: int = CONTRACT_VERSION) -> tuple[Column, ...]:
    """The columns that this version of the contract brought: of attributes that no span had before."""
    since: dict[Attribute, int] = {}
    for span in SPANS:
        for field in fields_of(span):
            begins = max(span.since, field.since)
            since[field.attribute] = min(begins, since.get(field.attribute, begins))
    return tuple(
        _column(one, wire_name) for one in attributes() if since[one] == version for wire_name in one.wire_names
    )


def _column(one: Attribute, wire_name: str) -> Column:
    # The seq is part of the sorting key: a span without one never gets this far.
    kind = "Int64" if one is SEQ else TYPES[one.type]
    return Column(column(wire_name), kind, wire_name, IN_DECODED[one.type])
