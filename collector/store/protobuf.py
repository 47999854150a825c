"""The wire form that ClickHouse decodes, and the type of the table that it decodes into.

Only what evidence needs is in the schema: everything else in a message (events, links, scopes, status text, floating
point and binary values) is skipped by the decoder, and so cannot be stored. Field numbers are those of OTLP 1.x,
https://github.com/open-telemetry/opentelemetry-proto.
"""

from __future__ import annotations

import struct
from pathlib import Path

MESSAGE = "ExportTraceServiceRequest"

RECEIVED_AT_FIELD = 1000
"""Not OTLP: the writer appends it to each message. A later one on the wire wins, so a client cannot set it."""

_FIXED64 = 1

SCHEMA_FILE = Path(__file__).with_name("otlp.proto")
"""A file: of a schema that is given as text the engine keeps a copy, in whatever folder the process runs in."""

INSERT_SETTINGS = {
    "format_schema": f"{SCHEMA_FILE}:{MESSAGE}",
    # Without it an attribute that is absent, or of another type, silently reads as 0 or ''.
    "input_format_protobuf_oneof_presence": "1",
    # A few messages have nothing to spread over threads; a plan that runs once is not worth optimising or compiling.
    "max_threads": "1",
    "query_plan_enable_optimizations": "0",
    "compile_expressions": "0",
}
"""Settings of the insert into `inbox`."""

KINDS = {"absent": 0, "string_value": 1, "bool_value": 2, "int_value": 3, "array_value": 5}
"""Which value an attribute carried, by field number. A kind not here (a double, a map, bytes) reads as absent."""


def inbox_type() -> str:
    """ClickHouse type of the column `resource_spans` of the table `inbox`."""
    kind = "Enum8(" + ", ".join(f"'{name}' = {number}" for name, number in KINDS.items()) + ")"
    element = f"Tuple(value {kind}, string_value String, int_value Int64)"
    plain = f"value {kind}, string_value String, bool_value Bool, int_value Int64"
    value = f"Tuple({plain}, array_value Tuple(values Array({element})))"
    attributes = f"Array(Tuple(key String, value {value}))"
    span = f"Tuple(trace_id String, name String, start_time_unix_nano UInt64, attributes {attributes})"
    scope_spans = f"Array(Tuple(spans Array({span})))"
    return f"Array(Tuple(resource Tuple(attributes {attributes}), scope_spans {scope_spans}))"


def delimited(message: bytes, received_at: int) -> bytes:
    """A message as ClickHouse's format `Protobuf` takes several: its length, itself, and when it came (unix ns)."""
    stamp = _varint(RECEIVED_AT_FIELD << 3 | _FIXED64) + struct.pack("<Q", received_at)
    return b"".join([_varint(len(message) + len(stamp)), message, stamp])


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
