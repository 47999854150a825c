"""The agent's encoding of facts without its intermediate objects: the same bytes, several times as fast.

A fact goes from what the recorder packs straight to its OTLP span. That the bytes are those of the agent's own way
(`engine_hooks.facts`, `.spans`, `.encode`) is tested over whole fleets; those modules say what is encoded, and this one
follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from engine_hooks import conventions as c
from engine_hooks.batch import encode_facts
from engine_hooks.facts import IDENTITY, Fact, Layout
from engine_hooks.spans import SpanSource

_KIND = b"\x30\x01"  # Span.kind: internal
_END = b"\x7a\x00\x85\x01\x00\x01\x00\x00"  # Span.status (empty) and flags: not remote
_NO_DIGEST = bytes(16)
_INT64 = (1 << 64) - 1


def varint(number: int) -> bytes:
    """A protobuf varint; negative numbers as 64-bit two's complement."""
    number &= _INT64
    if number < 0x80:
        return _SMALL[number]
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


_SMALL = [bytes([number]) for number in range(0x80)]


def sized(tag: bytes, data: bytes) -> bytes:
    """A field of variable length."""
    return tag + varint(len(data)) + data


class BulkEncoder:
    """Encodes the facts of one (emitter, boot)."""

    def __init__(self, emitter: str, boot: bytes) -> None:
        self._identity = blake2b(emitter.encode() + boot)
        self._own_trace = self._identity.digest()[:16]
        # the resource and the scope, as the agent encodes them
        source = SpanSource(emitter, boot)
        sample = ExportTraceServiceRequest.FromString(encode_facts(source, [Fact(c.EMITTER_STATUS, 1, 1, None)]))
        (resource,) = sample.resource_spans
        self._resource = sized(b"\x0a", resource.resource.SerializeToString())
        self._scope = sized(b"\x0a", resource.scope_spans[0].scope.SerializeToString())

    def message(self, spans: Sequence[bytes]) -> bytes:
        """The OTLP message of some spans of this encoder."""
        return sized(b"\x0a", self._resource + sized(b"\x12", b"".join([self._scope, *spans])))

    def span(
        self, layout: Layout, traffic: int, values: Sequence[object], text: bytes, pages: bytes, seq: int, time_ns: int
    ) -> bytes:
        """One span, as an entry of ScopeSpans, of what a recorder gives to `Ring.append`."""
        state = self._identity.copy()
        state.update(seq.to_bytes(8, "big"))
        time = time_ns.to_bytes(8, "little")
        first = 0
        said = [_number(c.SEQ.name, seq)]
        trace = self._own_trace
        if layout.span.leg:
            trace, ordinal = bytes(values[0])[:16], int(values[1])  # type: ignore[call-overload]
            said += [_number(c.ORDINAL.name, ordinal), _of_leg(bytes(values[0])[16:], traffic)]  # type: ignore[call-overload]
            first = 2
        said += _attributes(layout, values, first, text, pages)
        return sized(
            b"\x12",
            b"".join(
                (
                    b"\x0a\x10", trace, b"\x12\x08", state.digest()[:8], _name(layout.span.name), _KIND,
                    b"\x39", time, b"\x41", time, *said, _END,
                )
            ),
        )  # fmt: skip


def _attributes(layout: Layout, values: Sequence[object], first: int, text: bytes, pages: bytes) -> list[bytes]:
    presence = int(values[first])  # type: ignore[call-overload]
    plain: list[bytes] = []
    lists: list[bytes] = []
    for place, attribute in enumerate(layout.attributes):
        raw = values[first + 1 + place]
        kind = attribute.type
        if kind is c.Type.TEXT or kind is c.Type.TEXTS:
            assert isinstance(raw, int)
            part, text = text[:raw], text[raw:]
            if presence >> place & 1 and kind is c.Type.TEXT:
                plain.append(_text(attribute.name, part))
            elif presence >> place & 1:  # the agent takes an empty list for one of numbers, which come last
                (plain if part else lists).append(_texts(attribute.name, part))
            continue
        if not presence >> place & 1:
            continue
        if kind is c.Type.INT:
            assert isinstance(raw, int)
            plain.append(_number(attribute.name, raw))
        elif kind is c.Type.ENUM:
            assert isinstance(raw, int)
            plain.append(_word(attribute.name, attribute.choices[raw]))
        elif kind is c.Type.BOOL:
            plain.append(_attribute(attribute.name, b"\x10\x01" if raw else b"\x10\x00"))
        elif kind is c.Type.DIGEST:
            assert isinstance(raw, bytes)
            if raw != _NO_DIGEST:
                plain.append(_text(attribute.name, raw.hex().encode()))
        elif kind is c.Type.PAGES:
            lists += _runs(attribute.name, pages)
        else:
            raise NotImplementedError(f"{layout.span.name}: the bulk encoder does not know {kind.value}")
    return plain + lists


def _runs(name: str, pages: bytes) -> list[bytes]:
    numbers = np.frombuffer(pages, np.int32)
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    starts = numbers[np.concatenate(([0], breaks))] if len(numbers) else numbers
    lengths = np.diff(np.concatenate(([0], breaks, [len(numbers)]))) if len(numbers) else numbers
    return [
        _attribute(f"{name}.{what}", sized(b"\x2a", b"".join(map(_item, found.tolist()))))
        for what, found in (("start", starts), ("length", lengths))
    ]


@lru_cache(maxsize=1 << 16)
def _item(number: int) -> bytes:
    return sized(b"\x0a", b"\x18" + varint(number))


@lru_cache(maxsize=1 << 10)
def _key(name: str) -> bytes:
    return sized(b"\x0a", name.encode())


@lru_cache(maxsize=1 << 10)
def _name(name: str) -> bytes:
    return sized(b"\x2a", name.encode())


def _attribute(name: str, value: bytes) -> bytes:
    return sized(b"\x4a", _key(name) + sized(b"\x12", value))


@lru_cache(maxsize=1 << 16)
def _number(name: str, number: int) -> bytes:
    return _attribute(name, b"\x18" + varint(number))


@lru_cache(maxsize=1 << 10)
def _word(name: str, word: str) -> bytes:
    return _text(name, word.encode())


def _text(name: str, text: bytes) -> bytes:
    return _attribute(name, sized(b"\x0a", text))


@lru_cache(maxsize=1 << 10)
def _texts(name: str, text: bytes) -> bytes:
    items = [sized(b"\x0a", sized(b"\x0a", part)) for part in text.split(b"\n")] if text else []
    return _attribute(name, sized(b"\x2a", b"".join(items)))


@lru_cache(maxsize=1 << 12)
def _of_leg(tenant_and_key: bytes, traffic: int) -> bytes:
    _, tenant, key = IDENTITY.unpack(_NO_DIGEST + tenant_and_key)
    if tenant == _NO_DIGEST:
        who = _text(c.TENANT.name, c.UNATTRIBUTED.encode())
    else:
        who = _text(c.TENANT.name, tenant.hex().encode()) + _text(c.TENANT_KEY.name, key.rstrip(b"\0"))
    return who + _word(c.TRAFFIC.name, c.TRAFFIC.choices[traffic])
