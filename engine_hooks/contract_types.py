"""What the evidence contract is made of: attributes with a type, fields that put them on spans, spans.

The contract itself is :mod:`engine_hooks.conventions`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Type(enum.Enum):
    """How an attribute travels: in the ring, on the wire (OTLP) and in the store."""

    INT = "int"  # ring: int64; wire: int
    BOOL = "bool"  # ring: one byte; wire: bool
    ENUM = "enum"  # ring: index into `choices`, one byte; wire: the word
    DIGEST = "digest"  # ring: 16 bytes, all zero = absent; wire: 32 hex digits
    TEXT = "text"  # ring: UTF-8, length-prefixed; wire: string. Never client text
    TEXTS = "texts"  # ring: as TEXT, joined by newlines; wire: array of strings
    PAGES = "pages"  # ring: int32 page ids in token order; wire: run-lengths, two int arrays
    PER_PAGE = "per_page"  # ring: one int32 for each page of the span's PAGES; wire: one int for each of its runs
    INTS = "ints"  # ring: int32; wire: array of ints


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name on the wire, how it travels, its unit, and one sentence on what it says.

    An attribute of type PAGES is two on the wire, ``<name>.start`` and ``<name>.length``: the first page id and
    the number of consecutive ids of each run, in token order.
    """

    name: str
    type: Type
    unit: str
    brief: str
    choices: tuple[str, ...] = ()

    @property
    def wire_names(self) -> tuple[str, ...]:
        """Names of the OTLP attributes that carry it."""
        if self.type is Type.PAGES:
            return (f"{self.name}.start", f"{self.name}.length")
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute on a span. `required` is True, False, or the variants of the span that require it. `since` is the
    contract version that put it there: a ring of an older one lies without it."""

    attribute: Attribute
    required: bool | tuple[str, ...] = True
    since: int = 1

    def is_required(self, variant: str | None) -> bool:
        """Whether a span of this variant must carry the attribute."""
        if isinstance(self.required, bool):
            return self.required
        return variant in self.required


@dataclass(frozen=True, slots=True)
class Span:
    """One kind of fact.

    `code` is its number in the ring, never reused. `leg` facts belong to one leg and carry LEG_FIELDS; a `legless` one
    may also belong to none, and then carries none of them. `variant` names the ENUM attribute whose value decides which
    optional attributes are required. `absence` says what it would mean if such a fact were lost, and `revealed_by`
    which total, counter or other fact gives the loss away. `since` is the contract version that brought it.
    """

    name: str
    code: int
    brief: str
    leg: bool
    fields: tuple[Field, ...]
    variant: Attribute | None = None
    absence: str = ""
    revealed_by: str = ""
    legless: bool = False
    since: int = 1

    def field(self, name: str) -> Field:
        """The field whose attribute has this wire name. Raises KeyError if the span has none."""
        for candidate in self.fields:
            if candidate.attribute.name == name:
                return candidate
        raise KeyError(f"{self.name} has no attribute {name}")


def an_int(name: str, unit: str, brief: str) -> Attribute:
    """A number."""
    return Attribute(name, Type.INT, unit, brief)


def a_word(name: str, brief: str, *choices: str) -> Attribute:
    """One of some words."""
    return Attribute(name, Type.ENUM, "", brief, choices)


def a_text(name: str, brief: str) -> Attribute:
    """Text, never a client's."""
    return Attribute(name, Type.TEXT, "", brief)


def a_digest(name: str, brief: str) -> Attribute:
    """A keyed digest or a random id of 16 bytes."""
    return Attribute(name, Type.DIGEST, "", brief)
