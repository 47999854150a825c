"""docs/evidence.md: the evidence contract as a page."""

from __future__ import annotations

from docs.tables import table
from engine_hooks.conventions import (
    COMMON_FIELDS,
    CONTRACT_VERSION,
    LEG_FIELDS,
    RESOURCE_FIELDS,
    SPANS,
    Attribute,
    Field,
    Span,
    Type,
    column,
)

INTRODUCTION = f"""# Evidence: spans and attributes

Contract version {CONTRACT_VERSION}. Made by `make docs` from `engine_hooks/conventions.py`, the one list that recorder,
agent and store are built from. The schema is closed: an attribute that is not on this list is never stored. None of
them carries a token id, text of a prompt or an answer, an embedding, a free-text reason, or an unkeyed digest of any of
these.

One span is one fact. Its identity is (emitter, boot, seq). Its trace id is the uid of its leg, one attempt at one
prompt on one node; a fact that belongs to no leg has a trace id of its emitter and boot. A tenant is always a keyed
pseudonym, a request id or a room always a keyed digest.

*Required* says which spans must carry the attribute: `yes`, `no`, or the values of the span's *variant* (the attribute
in bold) that need it. A span without a required attribute, or with one of another type, is rejected and counted in
`evidence_rejects`; it is never stored with a default."""

RESOURCE = """Stored with every fact as `emitter`, `boot` and `contract`, beside `span` (the span's name), `uid` (its
trace id), `time` (its start, UTC) and `received_at` (when the store took it)."""


def evidence_page() -> str:
    """The page, in Markdown."""
    parts = [
        INTRODUCTION,
        "## On the resource of every batch",
        RESOURCE,
        table(
            ["attribute", "type", "says"], [[*_row(field)[:2], _sentence(field.attribute)] for field in RESOURCE_FIELDS]
        ),
        "## On every span",
        _fields(COMMON_FIELDS),
        "## On every span of a leg",
        _fields(LEG_FIELDS),
    ]
    for span in SPANS:
        parts += [f"## {span.name}", _about(span), _fields(span.fields, span.variant)]
    return "\n\n".join(parts) + "\n"


def _about(span: Span) -> str:
    return f"{span.brief} {'A fact of a leg.' if span.leg else 'Belongs to no leg.'}"


def _fields(fields: tuple[Field, ...], variant: Attribute | None = None) -> str:
    rows = [_row(field, is_variant=field.attribute is variant) for field in fields]
    return table(["attribute", "type", "required", "column", "says"], rows)


def _row(field: Field, *, is_variant: bool = False) -> list[str]:
    attribute = field.attribute
    name = ", ".join(f"`{wire_name}`" for wire_name in attribute.wire_names)
    if isinstance(field.required, bool):
        required = "yes" if field.required else "no"
    else:
        required = ", ".join(field.required)
    columns = ", ".join(f"`{column(wire_name)}`" for wire_name in attribute.wire_names)
    return [f"**{name}**" if is_variant else name, _type(attribute), required, columns, _sentence(attribute)]


def _type(attribute: Attribute) -> str:
    words = {
        Type.INT: "int",
        Type.BOOL: "bool",
        Type.ENUM: "word",
        Type.DIGEST: "32 hex digits",
        Type.TEXT: "text",
        Type.TEXTS: "texts",
        Type.PAGES: "two int arrays",
    }
    unit = f", {attribute.unit}" if attribute.unit and attribute.type is Type.INT else ""
    return words[attribute.type] + unit


def _sentence(attribute: Attribute) -> str:
    if not attribute.choices:
        return attribute.brief
    return f"{attribute.brief} One of {', '.join(f'`{choice}`' for choice in attribute.choices)}."
