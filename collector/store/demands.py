"""What the contract demands of a span, as numbered lists that SQL can look things up in.

A *place* is one wire attribute on one kind of span, numbered from 1 (0 is an attribute that the contract does not put
there). Its demands stand at its number in the lists of :class:`Places`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from collector.store.protobuf import KINDS
from engine_hooks import conventions as c
from engine_hooks.conventions import ORDINAL, SEQ, SPANS, TENANT, UNATTRIBUTED, Attribute, Field, Span, Type, fields_of

MAX_TEXT = 512
"""Longest text that is stored, in bytes."""

MAX_ITEM = 2**31 - 1
"""Largest number in a list: page ids, rows and token positions are int32 in the engine."""

MAX_PAGES = 10_000_000
"""Most pages that one list may hold."""

_KIND_OF = {
    Type.INT: "int_value",
    Type.BOOL: "bool_value",
    Type.ENUM: "string_value",
    Type.DIGEST: "string_value",
    Type.TEXT: "string_value",
    Type.TEXTS: "array_value",
    Type.PAGES: "array_value",
    Type.PER_PAGE: "array_value",
    Type.INTS: "array_value",
}
_ITEM_KIND_OF = {
    Type.TEXTS: "string_value",
    Type.PAGES: "int_value",
    Type.PER_PAGE: "int_value",
    Type.INTS: "int_value",
}

_BESIDE = {c.ROWS: c.STEP_STARTS, c.STEP_STARTS: c.STEP_ENDS, c.STEP_ENDS: c.ROWS, c.ROW_GENERATIONS: c.ROWS}
"""For lists that stand side by side on a span, which one each is as long as, unless it is empty."""


@dataclass(frozen=True, slots=True)
class Place:
    """One wire attribute on one kind of span."""

    span: Span
    field: Field
    wire_name: str

    @property
    def attribute(self) -> Attribute:
        """The attribute that is allowed there."""
        return self.field.attribute

    @property
    def kind(self) -> int:
        """Number of the kind of value that it must have."""
        return KINDS[_KIND_OF[self.attribute.type]]

    @property
    def item_kind(self) -> int:
        """Number of the kind that each item of its array must have; 0 if it is no array."""
        return KINDS[_ITEM_KIND_OF.get(self.attribute.type, "absent")]

    @property
    def least(self) -> int:
        """The least number allowed: counts start at 0, sequence numbers at 1; an offset goes both ways."""
        if self.attribute is c.CLOCK_OFFSET:
            return -(2**63 - 1)
        return 1 if self.attribute in (SEQ, ORDINAL) else 0

    @property
    def beside(self) -> str:
        """The wire name of the list that this one is as long as, unless it is empty; its own if it stands alone."""
        if self.attribute.type is Type.PAGES:
            starts, lengths = self.attribute.wire_names
            return lengths if self.wire_name == starts else starts
        if self.attribute.type is Type.PER_PAGE:
            pages = next(one for one in self.span.fields if one.attribute.type is Type.PAGES)
            return pages.attribute.wire_names[0]
        other = _BESIDE.get(self.attribute)
        return other.name if other else self.wire_name

    @property
    def is_hex(self) -> bool:
        """Whether 32 hex digits are a value for it."""
        return self.attribute.type is Type.DIGEST or self.attribute is TENANT

    @property
    def is_free(self) -> bool:
        """Whether its text is limited in length only."""
        return self.attribute.type is not Type.ENUM and not self.is_hex


class Places:
    """Every place of the contract, and what spans and their variants require, by number of the place."""

    def __init__(self) -> None:
        self.all = tuple(_places())
        self._number = {(place.span.name, place.wire_name): number for number, place in enumerate(self.all, start=1)}

    @cached_property
    def always(self) -> dict[Span, list[int]]:
        """Places that every span of a kind must fill, whatever its variant."""
        return {span: self._required(span, None) for span in SPANS}

    @cached_property
    def of_variants(self) -> dict[tuple[Span, str], list[int]]:
        """Places that a span must fill because of its variant, for the variants that ask for any."""
        found = {
            (span, variant): [number for number in self._required(span, variant) if number not in self.always[span]]
            for span in SPANS
            if span.variant is not None
            for variant in span.variant.choices
        }
        return {key: numbers for key, numbers in found.items() if numbers}

    @cached_property
    def variant(self) -> dict[Span, int]:
        """The place that names the span's variant; 0 if it has none."""
        return {span: self._number[span.name, span.variant.name] if span.variant else 0 for span in SPANS}

    @cached_property
    def beside(self) -> list[int]:
        """For each place, the place of the list that must be as long, unless this one is empty."""
        return [self._number[place.span.name, place.beside] for place in self.all]

    @cached_property
    def of_leg(self) -> dict[Span, list[int]]:
        """Places by which a span that may belong to no leg says that it does belong to one."""
        fields = {span: c.LEG_FIELDS if span.legless else () for span in SPANS}
        return {span: [self._number[span.name, one.attribute.name] for one in fields[span]] for span in SPANS}

    @cached_property
    def with_leg(self) -> dict[Span, list[int]]:
        """Places that such a span must fill if it fills one of those."""
        fields = {span: [one for one in c.LEG_FIELDS if one.required] if span.legless else [] for span in SPANS}
        return {span: [self._number[span.name, one.attribute.name] for one in fields[span]] for span in SPANS}

    def _required(self, span: Span, variant: str | None) -> list[int]:
        return [
            self._number[span.name, wire_name]
            for field in fields_of(span)
            if field.is_required(variant)
            for wire_name in field.attribute.wire_names
        ]


def words() -> list[str]:
    """Every `attribute=word` that is allowed where an attribute has only certain words."""
    found = {f"{TENANT.name}={UNATTRIBUTED}": None}
    for place in _places():
        if place.attribute.type is Type.ENUM:
            found |= {f"{place.wire_name}={word}": None for word in place.attribute.choices}
    return list(found)


def page_lists() -> list[tuple[str, str]]:
    """The two wire names (first ids, lengths) of each page list of the contract."""
    found = {place.attribute.wire_names: None for place in _places() if place.attribute.type is Type.PAGES}
    return [(names[0], names[1]) for names in found]


def _places() -> Iterator[Place]:
    for span in SPANS:
        for field in fields_of(span):
            for wire_name in field.attribute.wire_names:
                yield Place(span, field, wire_name)
