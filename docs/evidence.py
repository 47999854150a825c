"""docs/evidence.md: the evidence contract as a page."""

from __future__ import annotations

from collections.abc import Sequence

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
from engine_hooks.sglang_plugin.targets import Target, Version
from engine_hooks.suppliers import NOBODY, Supplier, Who, hook_points, named_hooks, supplier_of

INTRODUCTION = f"""# Evidence: spans and attributes

Contract version {CONTRACT_VERSION}. Made by `make docs` from `engine_hooks/conventions.py`, the one list that recorder,
agent and store are built from, and from `engine_hooks/suppliers.py`. The schema is closed: an attribute that is not on
this list is never stored. None of them carries a token id, text of a prompt or an answer, an embedding, a free-text
reason, or an unkeyed digest of any of these.

One span is one fact. Its identity is (emitter, boot, seq). Its trace id is the uid of its leg, one attempt at one
prompt on one node; a fact that belongs to no leg has a trace id of its emitter and boot. A tenant is always a keyed
pseudonym, a request id or a room always a keyed digest.

*Required* says which spans must carry the attribute: `yes`, `no`, or the values of the span's *variant* (the attribute
in bold) that need it. A span without a required attribute, or with one of another type, is rejected and counted in
`evidence_rejects`; it is never stored with a default.

*Since* is the version of the contract that brought the attribute. What an older emitter recorded lacks it: absent,
never a default. Attributes, spans and words are only ever added.

*From* says who supplies it: hooks of the engine, by the names in [Hook points](#hook-points), which says in which
versions of the engine they are there; the recorder that numbers facts; the agent; the gateway. **No supplier yet**
means that the contract and the store have a place for it, and nothing fills it: what needs it is blind."""

RESOURCE = """Stored with every fact as `emitter`, `boot` and `contract`, beside `span` (the span's name), `uid` (its
trace id), `time` (its start, UTC) and `received_at` (when the store took it)."""

ABSENCE = """Nothing here says that a fact was lost; something else does. For each span: what it would mean if such a
fact were missing, and which number or other fact gives that away."""

HOOKS = """Where the hooks of the names above attach in SGLang. *Tier* is the lowest that has the hook. Everything on
the thread `scheduler` delays the engine by what recording costs; *runs* says how often: once a `request`, `chunk`,
`step` or `group` (of frees), or `rare`ly. A node's `hooks.missing` names those that could not attach."""


def evidence_page() -> str:
    """The page, in Markdown."""
    parts = [
        INTRODUCTION,
        "## On the resource of every batch",
        RESOURCE,
        table(
            ["attribute", "type", "says"],
            [
                [_names(field.attribute), _type(field.attribute), _sentence(field.attribute)]
                for field in RESOURCE_FIELDS
            ],
        ),
        "## On every span",
        _common(COMMON_FIELDS),
        "## On every span of a leg",
        _common(LEG_FIELDS),
    ]
    for span in SPANS:
        parts += [f"## {span.name}", _about(span), _fields(span)]
    parts += ["## What absence means", ABSENCE, _absences(), "## Hook points", HOOKS, _hook_points()]
    return "\n\n".join(parts) + "\n"


def _about(span: Span) -> str:
    if span.legless:
        whose = "A fact of a leg, or of none; then it has nothing of what every span of a leg carries."
    else:
        whose = "A fact of a leg." if span.leg else "Belongs to no leg."
    since = f" Since version {span.since}." if span.since > 1 else ""
    supplied = " **No supplier yet.**" if _has_no_supplier(span) else ""
    return f"{span.brief} {whose}{since}{supplied}"


def _has_no_supplier(span: Span) -> bool:
    return all(supplier_of(span, field.attribute) is NOBODY for field in span.fields)


def _common(fields: Sequence[Field]) -> str:
    """Attributes that many spans have: who supplies them depends on the span only where the agent speaks."""
    rows = []
    for field in fields:
        example = next(span for span in SPANS if span.leg)
        rows.append(_row(field, _from(supplier_of(example, field.attribute)), since=field.since))
    return table(_HEADER, rows)


_HEADER = ["attribute", "type", "required", "since", "from", "column", "says"]


def _fields(span: Span) -> str:
    rows = [
        _row(
            field,
            _from(supplier_of(span, field.attribute)),
            since=max(span.since, field.since),
            is_variant=field.attribute is span.variant,
        )
        for field in span.fields
    ]
    return table(_HEADER, rows)


def _row(field: Field, supplier: str, *, since: int, is_variant: bool = False) -> list[str]:
    attribute = field.attribute
    if isinstance(field.required, bool):
        required = "yes" if field.required else "no"
    else:
        required = ", ".join(field.required)
    columns = ", ".join(f"`{column(wire_name)}`" for wire_name in attribute.wire_names)
    name = f"**{_names(attribute)}**" if is_variant else _names(attribute)
    return [name, _type(attribute), required, str(since), supplier, columns, _sentence(attribute)]


def _names(attribute: Attribute) -> str:
    return ", ".join(f"`{wire_name}`" for wire_name in attribute.wire_names)


def _from(supplier: Supplier) -> str:
    if supplier.who is Who.HOOKS:
        return ", ".join(f"`{name}`" for name in supplier.hooks)
    return f"**{supplier.who.value}**" if supplier is NOBODY else supplier.who.value


def _type(attribute: Attribute) -> str:
    words = {
        Type.INT: "int",
        Type.BOOL: "bool",
        Type.ENUM: "word",
        Type.DIGEST: "32 hex digits",
        Type.TEXT: "text",
        Type.TEXTS: "texts",
        Type.PAGES: "two int arrays",
        Type.PER_PAGE: "int array, one a run",
        Type.INTS: "int array",
    }
    unit = f", {attribute.unit}" if attribute.unit and attribute.type in (Type.INT, Type.INTS) else ""
    return words[attribute.type] + unit


def _sentence(attribute: Attribute) -> str:
    if not attribute.choices:
        return attribute.brief
    return f"{attribute.brief} One of {', '.join(f'`{choice}`' for choice in attribute.choices)}."


def _absences() -> str:
    return table(
        ["span", "if one were missing", "what reveals it"],
        [[f"`{span.name}`", span.absence, span.revealed_by] for span in SPANS],
    )


def _hook_points() -> str:
    rows = [
        [
            f"`{name}`",
            f"`{_place(row)}`",
            row.when,
            _versions(row),
            row.backend or "all",
            row.tier,
            row.thread,
            row.cost,
        ]
        for name in named_hooks()
        for row in hook_points(name)
    ]
    return table(["supplies", "hook point", "when", "versions", "backend", "tier", "thread", "runs"], rows)


def _place(row: Target) -> str:
    return row.path.removeprefix("sglang.srt.")


def _versions(row: Target) -> str:
    newest = _text(row.until) if row.until else ""
    return f"{_text(row.since)} to {newest}" if newest else f"{_text(row.since)} on"


def _text(version: Version) -> str:
    return ".".join(map(str, version))
