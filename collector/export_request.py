"""What the receiver reads of an export request before the store sees it: that it is one, and who speaks in it.

The protobuf library parses the whole message, in C, about a microsecond a span; spans are not looked at here. What goes
on to the store is the message written out anew: fields that were sent twice, which two readers could take differently,
are settled then, so the emitter that was checked is the emitter that is stored.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from engine_hooks.conventions import BOOT, CONTRACT, CONTRACT_VERSION, EMITTER, RESOURCE_FIELDS, Type

MAX_EMITTER = 256
MAX_RESOURCES = 1_000
MAX_SCOPES = 10_000
MAX_ATTRIBUTES = 1_000_000

_EMITTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(?:/[A-Za-z0-9][A-Za-z0-9._:-]*)+")
_BOOT = re.compile(r"[0-9a-f]{32}")
_one_at_a_time = threading.Lock()
_KINDS = {Type.INT: "int_value", Type.TEXT: "string_value", Type.DIGEST: "string_value"}


class BadRequestError(Exception):
    """The request cannot be stored, however often it is sent: what is wrong, and where."""


class TooManyError(Exception):
    """The request has more in it than the receiver takes at a time: what to split."""


class NewerContractError(Exception):
    """The sender is of a newer version: to be sent again when the collector is, too."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A request whose wire form and resources are good. `sources` are its (emitter, boot), each once."""

    message: bytes
    sources: tuple[tuple[str, str], ...]
    spans: int


def read_export(body: bytes, max_spans: int) -> ExportRequest:
    """Read a request. Raises BadRequestError, TooManyError or NewerContractError; says nothing of what it holds.

    One at a time: two bytes can be a whole message, and take 60 when they are parsed.
    """
    with _one_at_a_time:
        try:
            return _read(body, max_spans)
        except (BadRequestError, TooManyError, NewerContractError) as error:
            raise error.with_traceback(None) from None  # its frames would keep the parsed message


def _read(body: bytes, max_spans: int) -> ExportRequest:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise BadRequestError(
            f"the body ({len(body)} bytes) is not an OTLP ExportTraceServiceRequest in protobuf"
        ) from None
    groups = request.resource_spans
    _check_number("resource_spans", len(groups), MAX_RESOURCES)
    _check_number("scope_spans", sum(len(group.scope_spans) for group in groups), MAX_SCOPES)
    spans = sum(len(scope.spans) for group in groups for scope in group.scope_spans)
    _check_number("spans", spans, max_spans)
    attributes = sum(len(span.attributes) for group in groups for scope in group.scope_spans for span in scope.spans)
    _check_number("attributes", attributes, MAX_ATTRIBUTES)
    sources = {_source(group, f"resource_spans[{number}]"): None for number, group in enumerate(groups)}
    return ExportRequest(request.SerializeToString(), tuple(sources), spans)


def _check_number(what: str, number: int, most: int) -> None:
    if number > most:
        raise TooManyError(f"{number} {what} in one request; send at most {most}")


def _source(group: ResourceSpans, where: str) -> tuple[str, str]:
    """(emitter, boot) of a group."""
    values = _resource(group, where)
    emitter, boot, contract = values[EMITTER.name], values[BOOT.name], values[CONTRACT.name]
    if len(emitter) > MAX_EMITTER or not _EMITTER.fullmatch(emitter):
        raise BadRequestError(
            f"{where}: {EMITTER.name} must be <prefix>/<name>, of letters, digits and . _ : -, at most {MAX_EMITTER}"
        )
    if not _BOOT.fullmatch(boot) or boot == "0" * 32:
        raise BadRequestError(f"{where}: {BOOT.name} must be 32 lower-case hex digits, not all zero")
    if contract < 1:
        raise BadRequestError(f"{where}: {CONTRACT.name} must be a contract version, from 1")
    if contract > CONTRACT_VERSION:
        raise NewerContractError(
            f"{where}: contract {contract} is newer than this collector's {CONTRACT_VERSION}: upgrade the collector"
        )
    return emitter, boot


def _resource(group: ResourceSpans, where: str) -> Mapping[str, Any]:
    """The resource attributes that the contract wants; others are ignored, and not stored."""
    wanted = {field.attribute.name: _KINDS[field.attribute.type] for field in RESOURCE_FIELDS}
    values: dict[str, Any] = {}
    for attribute in group.resource.attributes:
        kind = wanted.get(attribute.key)
        if kind is None:
            continue
        if attribute.key in values:
            raise BadRequestError(f"{where}: the resource has {attribute.key} twice")
        if attribute.value.WhichOneof("value") != kind:
            raise BadRequestError(f"{where}: the resource's {attribute.key} must be a {kind.removesuffix('_value')}")
        values[attribute.key] = getattr(attribute.value, kind)
    for name in wanted:
        if name not in values:
            raise BadRequestError(f"{where}: the resource has no {name}")
    return values
