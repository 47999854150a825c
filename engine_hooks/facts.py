"""The packed form of a fact: how the contract's fields lie in the ring.

A record is ``header | body | tails | padding to 8 bytes``, all in the host's own byte order (a ring never leaves its
host). The header is written last, because its seq must not be taken before everything that can fail is done. The body
is one `struct` per kind of span, derived here from :mod:`engine_hooks.conventions`: recording a fact is two struct
packs. Values of variable length leave their byte length in the body and follow it as tails: text in the contract's
order, then page ids.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from engine_hooks.conventions import CONTRACT_VERSION, SPANS, TRAFFIC, UNATTRIBUTED, Attribute, Span, Type

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

HEADER = struct.Struct("@IBBxxQQ")
"""Record header: size in bytes (padding included), span code, traffic index, seq, time in unix ns."""
HEADER_SEQ = 3
"""Where the seq is among the header's values."""

ALIGN = 8
KEY_ID_BYTES = 8
IDENTITY = struct.Struct(f"@16s16s{KEY_ID_BYTES}s")
"""Who a leg fact belongs to: uid, tenant pseudonym (zero = unattributed), id of the pseudonym key."""

_FORMATS = {
    Type.INT: "q",
    Type.BOOL: "?",
    Type.ENUM: "B",
    Type.DIGEST: "16s",
    Type.TEXT: "I",  # byte length of the tail
    Type.TEXTS: "I",
    Type.PAGES: "I",
    Type.PER_PAGE: "I",
    Type.INTS: "I",
}
_NUMBERS = frozenset({Type.PAGES, Type.PER_PAGE, Type.INTS})
_TAILED = frozenset({Type.TEXT, Type.TEXTS}) | _NUMBERS
_PAGE_FORMATS = frozenset({"i", "I", "<i", "<I", "=i", "=I"})
_NO_DIGEST = bytes(16)

Value: TypeAlias = "int | bool | str | bytes | tuple[str, ...] | array[int]"
"""ENUM and TEXT as str, DIGEST as 16 bytes, TEXTS as a tuple of str, lists of numbers as an `array('i')`."""


class FactError(ValueError):
    """Values do not fit the contract, or the bytes of a record are not a fact of it."""


@dataclass(frozen=True, slots=True)
class LegPart:
    """The leg that a fact belongs to. `tenant` is 32 hex digits or `unattributed`; `tenant_key` is '' then."""

    uid: bytes
    tenant: str
    tenant_key: str
    traffic: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class Fact:
    """One unpacked fact. `values` holds the present attributes by their contract names."""

    span: Span
    seq: int
    time_ns: int
    leg: LegPart | None
    values: dict[str, Value] = field(default_factory=dict)


class Layout:
    """The packed body of one kind of span, as a contract version has it.

    `pack_into` packs, for a leg fact, ``identity (40 bytes), ordinal, presence, *fields``, else ``presence, *fields``,
    the fields in the contract's order. `presence` has one bit for each field, in the same order. `tail` is where in the
    record the tails begin, `size` the size of a record without any, both in bytes.
    """

    __slots__ = ("_bits", "_pages", "_per_page", "attributes", "code", "pack_into", "size", "span", "struct", "tail")

    def __init__(self, span: Span, version: int = CONTRACT_VERSION) -> None:
        if len(span.fields) > 32:
            raise FactError(f"{span.name} has {len(span.fields)} attributes; a record has room for 32 presence bits")
        numbers = [one.attribute.type for one in span.fields if one.attribute.type in _NUMBERS]
        if Type.PAGES in numbers[1:]:
            raise FactError(f"{span.name}: page ids are the first of its lists, and there is one such list")
        self.span = span
        self.attributes: tuple[Attribute, ...] = tuple(one.attribute for one in span.fields if one.since <= version)
        leg = f"{IDENTITY.size}sI" if span.leg else ""
        self.struct = struct.Struct("@" + leg + "I" + "".join(_FORMATS[one.type] for one in self.attributes))
        self.code = span.code
        self.pack_into = self.struct.pack_into
        self.tail = HEADER.size + self.struct.size
        self.size = -(-self.tail // ALIGN) * ALIGN
        self._bits = {one.name: 1 << place for place, one in enumerate(self.attributes)}
        self._per_page = [one.name for one in self.attributes if one.type is Type.PER_PAGE]
        self._pages = next((one.name for one in self.attributes if one.type is Type.PAGES), "")

    def presence(self, *names: str) -> int:
        """The presence bits of these attributes. Raises KeyError for one that the span does not have."""
        bits = 0
        for name in names:
            bits |= self._bits[name]
        return bits

    def required(self, variant: str | None) -> int:
        """The presence bits of everything that this variant of the span must carry."""
        return self.presence(*(one.attribute.name for one in self.span.fields if one.is_required(variant)))

    @property
    def _tails(self) -> list[int]:
        """Places of the attributes with a tail, in the order of the tails."""
        kinds = [one.type for one in self.attributes]
        texts = [place for place, kind in enumerate(kinds) if kind in _TAILED - _NUMBERS]
        return texts + [place for place, kind in enumerate(kinds) if kind in _NUMBERS]

    def pack(self, values: Mapping[str, Value]) -> tuple[list[object], bytes, memoryview | None]:
        """The struct arguments from `presence` on, the text and the page ids. Absent attributes are not in `values`.

        Raises FactError for an attribute that the span does not have, one that its variant requires and `values`
        lacks, a word outside an ENUM's choices, or a value of another type.
        """
        unknown = set(values) - set(self._bits)
        if unknown:
            raise FactError(f"{self.span.name} has no attribute {', '.join(sorted(unknown))}")
        variant = values.get(self.span.variant.name) if self.span.variant else None
        missing = self.required(str(variant)) & ~self.presence(*values)
        if missing:
            names = [one.name for one in self.attributes if self._bits[one.name] & missing]
            raise FactError(f"{self.span.name} needs {', '.join(names)}")
        arguments: list[object] = [self.presence(*values)]
        text = b""
        numbers: list[memoryview] = []
        for attribute in self.attributes:
            argument, tail = _pack_value(attribute, values.get(attribute.name))
            arguments.append(argument)
            if isinstance(tail, memoryview):
                numbers.append(tail)
            elif tail is not None:
                text += tail
        if len(numbers) > 1:
            return arguments, text, memoryview(b"".join(numbers))
        return arguments, text, numbers[0] if numbers else None

    def unpack(self, record: memoryview, traffic: int) -> tuple[LegPart | None, dict[str, Value]]:
        """The leg and the present values of a record of this span. Raises FactError if the bytes do not fit."""
        try:
            parts = self.struct.unpack_from(record, HEADER.size)
        except struct.error as error:
            raise FactError(f"{self.span.name}: the record is too short ({len(record)} bytes)") from error
        leg = None
        first = 0
        if self.span.leg:
            first = 2
            if not self.span.legless or parts[0][:16] != _NO_DIGEST:
                leg = _leg(parts[0], parts[1], traffic)
        presence: int = parts[first]
        values: dict[str, Value] = {}
        tails: dict[int, memoryview] = {}
        at = self.tail
        for place in self._tails:
            raw = parts[first + 1 + place]
            tails[place], at = record[at : at + raw], at + raw
            if len(tails[place]) != raw:
                raise FactError(f"{self.span.name}: {self.attributes[place].name} reaches beyond the record")
        for place, attribute in enumerate(self.attributes):
            raw = parts[first + 1 + place]
            tail = tails.get(place, record[:0])
            if presence >> place & 1:
                value = _unpack_value(attribute, raw, tail)
                if value is not None:
                    values[attribute.name] = value
        for name in self._per_page:
            if name in values and len(_numbers(values[name])) != len(_numbers(values.get(self._pages, array("i")))):
                raise FactError(f"{self.span.name}: {name} is not one for each page")
        return leg, values


LAYOUTS_BY_VERSION: dict[int, dict[int, Layout]] = {
    version: {span.code: Layout(span, version) for span in SPANS if span.since <= version}
    for version in range(1, CONTRACT_VERSION + 1)
}
"""Layout by contract version, then by span code: an agent reads the rings of engines that an older version records."""

LAYOUTS: dict[int, Layout] = LAYOUTS_BY_VERSION[CONTRACT_VERSION]
"""Layout by span code, as this version records."""


def layout_of(span: Span) -> Layout:
    """The layout of a span of the contract."""
    return LAYOUTS[span.code]


def enum_index(attribute: Attribute) -> dict[str, int]:
    """How the words of an ENUM attribute are stored: word -> index."""
    return {word: place for place, word in enumerate(attribute.choices)}


def page_bytes(pages: ReadableBuffer) -> memoryview:
    """Page ids as contiguous raw bytes. Raises TypeError unless the buffer holds 4-byte integers: a list of another
    width would be recorded as other pages."""
    view = memoryview(pages)
    if view.format not in _PAGE_FORMATS:
        raise TypeError(f"page ids must be int32, not of format {view.format!r}")
    return view if view.c_contiguous else memoryview(view.tobytes())


def unpack_fact(record: memoryview, version: int = CONTRACT_VERSION) -> Fact:
    """The fact in a record (header, body, tails) that was packed under a contract version. Raises FactError if the
    bytes are not a fact of it."""
    if len(record) < HEADER.size:
        raise FactError(f"a record of {len(record)} bytes is shorter than its header")
    _, code, traffic, seq, time_ns = HEADER.unpack_from(record)
    layout = LAYOUTS_BY_VERSION.get(version, {}).get(code)
    if layout is None:
        raise FactError(f"contract version {version} has no span with code {code}")
    leg, values = layout.unpack(record, traffic)
    return Fact(layout.span, seq, time_ns, leg, values)


def _numbers(value: Value) -> array[int]:
    assert isinstance(value, array)
    return value


def _leg(identity: bytes, ordinal: int, traffic: int) -> LegPart:
    uid, tenant, key = IDENTITY.unpack(identity)
    if traffic >= len(TRAFFIC.choices):
        raise FactError(f"the contract has no traffic label with index {traffic}")
    label = TRAFFIC.choices[traffic]
    if tenant == _NO_DIGEST:
        return LegPart(uid, UNATTRIBUTED, "", label, ordinal)
    try:
        key_id = key.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError as error:
        raise FactError("the id of the tenant's key is not ASCII") from error
    return LegPart(uid, tenant.hex(), key_id, label, ordinal)


def _pack_value(attribute: Attribute, value: Value | None) -> tuple[object, bytes | memoryview | None]:
    if value is None:
        return (_NO_DIGEST if attribute.type is Type.DIGEST else 0), None
    match attribute.type:
        case Type.INT if isinstance(value, int):
            return value, None
        case Type.BOOL if isinstance(value, bool):
            return value, None
        case Type.ENUM if value in attribute.choices:
            return attribute.choices.index(str(value)), None
        case Type.DIGEST if isinstance(value, bytes) and len(value) == 16:
            return value, None
        case Type.TEXT if isinstance(value, str):
            text = value.encode()
            return len(text), text
        case Type.TEXTS if isinstance(value, tuple):
            text = "\n".join(value).encode()
            if text.count(b"\n") != max(len(value) - 1, 0) or value == ("",):
                raise FactError(f"{attribute.name}: an item holds a line break, or the only item is empty")
            return len(text), text
        case Type.PAGES | Type.PER_PAGE | Type.INTS if isinstance(value, array):
            view = page_bytes(value)
            return view.nbytes, view
    raise FactError(f"{attribute.name} is of type {attribute.type.value}; this value does not fit")


def _unpack_value(attribute: Attribute, raw: object, tail: memoryview) -> Value | None:
    match attribute.type:
        case Type.INT | Type.BOOL:
            assert isinstance(raw, int)
            return raw
        case Type.ENUM:
            assert isinstance(raw, int)
            if raw >= len(attribute.choices):
                raise FactError(f"{attribute.name} has no choice with index {raw}")
            return attribute.choices[raw]
        case Type.DIGEST:
            assert isinstance(raw, bytes)
            return raw if raw != _NO_DIGEST else None
        case Type.PAGES | Type.PER_PAGE | Type.INTS:
            numbers = array("i")
            if len(tail) % numbers.itemsize:
                raise FactError(f"{attribute.name}: {len(tail)} bytes are no whole number of numbers")
            numbers.frombytes(tail)
            return numbers
    try:
        text = str(tail, "utf-8")
    except UnicodeDecodeError as error:
        raise FactError(f"{attribute.name} is not UTF-8") from error
    if attribute.type is Type.TEXT:
        return text
    return tuple(text.split("\n")) if text else ()
