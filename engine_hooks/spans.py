"""From a fact to an OpenTelemetry span: one span a fact, nothing on it that the contract does not list.

Trace id = uid of the leg (for other facts: derived from emitter and boot), span id = derived from (emitter, boot, seq),
so that the same fact is the same span however often it is sent. The resource names emitter and boot.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import AttributeValue

from engine_hooks import conventions as c
from engine_hooks.facts import Fact, Value

SERVICE = "pagewitness-hooks"


class SpanSource:
    """Makes the spans of one (emitter, boot)."""

    def __init__(self, emitter: str, boot: bytes, contract: int = c.CONTRACT_VERSION) -> None:
        self.emitter = emitter
        self.boot = boot
        self.resource = _EmitterResource(
            {
                c.SERVICE_NAME.name: SERVICE,
                c.EMITTER.name: emitter,
                c.BOOT.name: boot.hex(),
                c.CONTRACT.name: contract,
            }
        )
        self._identity = blake2b(emitter.encode() + boot)
        self._own_trace = int.from_bytes(self._identity.digest()[:16], "big")

    def span(self, fact: Fact) -> ReadableSpan:
        """The span of a fact. It starts and ends at the fact's time."""
        state = self._identity.copy()
        state.update(fact.seq.to_bytes(8, "big"))
        span_id = int.from_bytes(state.digest()[:8], "big") or 1
        trace_id = int.from_bytes(fact.leg.uid, "big") if fact.leg else self._own_trace
        return ReadableSpan(
            fact.span.name,
            context=SpanContext(trace_id, span_id, is_remote=False),
            resource=self.resource,
            attributes=wire_attributes(fact),
            start_time=fact.time_ns,
            end_time=fact.time_ns,
        )


def wire_attributes(fact: Fact) -> dict[str, AttributeValue]:
    """The attributes of a fact's span by their names on the wire."""
    wire: dict[str, AttributeValue] = {c.SEQ.name: fact.seq}
    if fact.leg is not None:
        wire[c.ORDINAL.name] = fact.leg.ordinal
        wire[c.TENANT.name] = fact.leg.tenant
        if fact.leg.tenant_key:
            wire[c.TENANT_KEY.name] = fact.leg.tenant_key
        wire[c.TRAFFIC.name] = fact.leg.traffic
    for attribute in (one.attribute for one in fact.span.fields):
        value = fact.values.get(attribute.name)
        if value is None:
            continue
        if attribute.type is c.Type.PAGES:
            wire |= _wire_pages(fact, attribute, value)
        elif attribute.type is not c.Type.PER_PAGE:
            wire[attribute.name] = _wire_value(value)
    return wire


def _wire_pages(fact: Fact, attribute: c.Attribute, pages: Value) -> dict[str, AttributeValue]:
    """A page list as runs, and what the span says of each page as one number a run."""
    assert isinstance(pages, array)
    names = [one.attribute.name for one in fact.span.fields if one.attribute.type is c.Type.PER_PAGE]
    said = [(name, fact.values[name]) for name in names if name in fact.values]
    if not said:
        starts, lengths = run_lengths(pages)
        return {f"{attribute.name}.start": starts, f"{attribute.name}.length": lengths}
    name, numbers = said[0]
    assert isinstance(numbers, array)
    starts, lengths, of_runs = runs_with(pages, numbers)
    return {f"{attribute.name}.start": starts, f"{attribute.name}.length": lengths, name: of_runs}


def run_lengths(pages: Sequence[int]) -> tuple[list[int], list[int]]:
    """Runs of consecutive page ids, in the order given: the first id of each, and how many."""
    starts: list[int] = []
    lengths: list[int] = []
    begin = 0
    expected: int | None = None
    for place, page in enumerate(pages):
        if page != expected:
            if starts:
                lengths.append(place - begin)
            starts.append(page)
            begin = place
        expected = page + 1
    if starts:
        lengths.append(len(pages) - begin)
    return starts, lengths


def runs_with(pages: Sequence[int], numbers: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """As :func:`run_lengths`, where each page has a number: a run ends where that changes, and has one of its own.

    Raises ValueError unless there is a number for each page.
    """
    starts: list[int] = []
    lengths: list[int] = []
    of_runs: list[int] = []
    for page, number in zip(pages, numbers, strict=True):
        if starts and page == starts[-1] + lengths[-1] and number == of_runs[-1]:
            lengths[-1] += 1
        else:
            starts.append(page)
            lengths.append(1)
            of_runs.append(number)
    return starts, lengths, of_runs


def wire_size(span: ReadableSpan) -> int:
    """About how many bytes the span takes in an OTLP message: a little more than it really does, never less."""
    size = 72 + len(span.name)
    for name, value in (span.attributes or {}).items():
        size += len(name) + 18
        if isinstance(value, str):
            size += _text_size(value)
        elif isinstance(value, list) and value:
            if isinstance(value[0], str):
                size += sum(8 + _text_size(item) for item in value)
            else:
                # Each number is a message of its own. Negative ones take ten bytes; the largest stands for the rest.
                digits = 10 if min(value) < 0 else -(-max(value).bit_length() // 7) or 1
                size += len(value) * (3 + digits)
    return size


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


def _wire_value(value: Value) -> AttributeValue:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return list(value)
    return value.tolist() if isinstance(value, array) else value


class _EmitterResource(Resource):
    """The encoder looks the resource up once a span, and the SDK hashes it through JSON each time. This one does not
    change, so it is its own key."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other
