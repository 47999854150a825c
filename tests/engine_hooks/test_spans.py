"""A fact becomes one span that carries what the contract lists and nothing else."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from engine_hooks import conventions as c
from engine_hooks.batch import encode_facts
from engine_hooks.facts import Fact, LegPart, Value
from engine_hooks.spans import SpanSource, run_lengths, runs_with, wire_size
from tests.engine_hooks.receiver import decode
from tests.engine_hooks.support import page_list
from tests.engine_hooks.test_facts import span_values

BOOT = bytes(range(16))
SOURCE = SpanSource("host1/decode", BOOT)
LEG = LegPart(b"u" * 16, "ab" * 16, "p1", "internal", 4)


def a_fact(span: c.Span, values: dict[str, Value], seq: int = 9, leg: LegPart = LEG) -> Fact:
    return Fact(span, seq, 1_700_000_000_000_000_000, leg if span.leg else None, values)


def allowed(span: c.Span) -> set[str]:
    return {name for field in c.fields_of(span) for name in field.attribute.wire_names}


@given(span_values())
def test_no_attribute_outside_the_contract_is_ever_sent(example: tuple[c.Span, dict[str, Value]]) -> None:
    span, values = example

    (sent,) = decode(encode_facts(SOURCE, [a_fact(span, values)]))

    assert sent.name == span.name
    assert set(sent.values) <= allowed(span)


@given(span_values())
def test_every_present_attribute_is_sent_with_its_value(example: tuple[c.Span, dict[str, Value]]) -> None:
    span, values = example

    (sent,) = decode(encode_facts(SOURCE, [a_fact(span, values)]))

    for name, value in values.items():
        match value:
            case array() if name == c.PAGES.name:
                starts, lengths = sent.values[f"{name}.start"], sent.values[f"{name}.length"]
                pages = [start + step for start, length in zip(starts, lengths, strict=True) for step in range(length)]
                assert pages == list(value)
            case array() if name == c.GENERATION.name:
                lengths = sent.values["pagewitness.pages.length"]
                runs = zip(sent.values[name], lengths, strict=True)
                assert [count for count, length in runs for _ in range(length)] == list(value)
            case array():
                assert sent.values[name] == list(value)
            case bytes():
                assert sent.values[name] == value.hex()
            case tuple():
                assert sent.values[name] == list(value)
            case _:
                assert sent.values[name] == value
                assert type(sent.values[name]) is type(value)


@given(span_values())
def test_the_size_of_a_span_is_never_underestimated(example: tuple[c.Span, dict[str, Value]]) -> None:
    fact = a_fact(*example)

    overhead = len(encode_facts(SOURCE, [fact, fact])) - len(encode_facts(SOURCE, [fact]))

    assert overhead <= wire_size(SOURCE.span(fact))


def test_the_resource_names_emitter_boot_and_contract_and_nothing_else() -> None:
    assert dict(SOURCE.resource.attributes) == {
        "service.name": "pagewitness-hooks",
        "service.instance.id": "host1/decode",
        "pagewitness.boot": BOOT.hex(),
        "pagewitness.contract": c.CONTRACT_VERSION,
    }
    assert set(SOURCE.resource.attributes) == {field.attribute.name for field in c.RESOURCE_FIELDS}


def test_the_trace_is_the_leg_and_a_fact_without_one_has_its_emitters_trace() -> None:
    refused = {c.SIDE.name: "receive", c.STATUS.name: "refused"}
    status: dict[str, Value] = {c.CLOSE.name: "open"}
    of_leg = SOURCE.span(a_fact(c.TRANSFER, dict(refused))).get_span_context()
    first = SOURCE.span(a_fact(c.EMITTER_STATUS, status, seq=1)).get_span_context()
    second = SOURCE.span(a_fact(c.EMITTER_STATUS, status, seq=2)).get_span_context()

    assert of_leg is not None
    assert first is not None
    assert second is not None
    assert of_leg.trace_id.to_bytes(16, "big") == LEG.uid
    assert first.trace_id == second.trace_id != of_leg.trace_id
    assert first.span_id != second.span_id


def test_the_same_fact_is_the_same_span_in_another_process() -> None:
    facts = [a_fact(c.EMITTER_STATUS, {}, seq=seq) for seq in (1, 2)]

    again = encode_facts(SpanSource("host1/decode", BOOT), facts)

    assert again == encode_facts(SOURCE, facts)


def test_another_boot_has_other_span_ids() -> None:
    fact = a_fact(c.EMITTER_STATUS, {}, seq=1)
    (ours,) = decode(encode_facts(SOURCE, [fact]))
    (theirs,) = decode(encode_facts(SpanSource("host1/decode", bytes(16)), [fact]))

    assert (ours.span_id, ours.trace_id) != (theirs.span_id, theirs.trace_id)


def test_an_unattributed_leg_says_so_and_names_no_key() -> None:
    leg = LegPart(b"u" * 16, c.UNATTRIBUTED, "", "customer", 1)

    (sent,) = decode(encode_facts(SOURCE, [a_fact(c.TRANSFER, {}, leg=leg)]))

    assert sent.values["tenant.id"] == "unattributed"
    assert "pagewitness.tenant.key" not in sent.values


def test_an_empty_page_list_is_sent_as_two_empty_arrays() -> None:
    (sent,) = decode(encode_facts(SOURCE, [a_fact(c.PAGE_RELEASE, {c.PAGES.name: page_list()})]))

    assert (sent.values["pagewitness.pages.start"], sent.values["pagewitness.pages.length"]) == ([], [])


def test_runs_keep_the_order_of_the_pages() -> None:
    assert run_lengths([7, 8, 9, 3, 4, 9, 10, 10]) == ([7, 3, 9, 10], [3, 2, 2, 1])


@given(st.lists(st.integers(0, 20)))
def test_runs_hold_exactly_the_pages(pages: list[int]) -> None:
    starts, lengths = run_lengths(pages)

    assert [start + step for start, length in zip(starts, lengths, strict=True) for step in range(length)] == pages
    assert all(length > 0 for length in lengths)


def test_a_run_ends_where_the_number_of_its_pages_changes() -> None:
    assert runs_with([7, 8, 9, 3, 4], [1, 1, 2, 2, 2]) == ([7, 9, 3], [2, 1, 2], [1, 2, 2])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3))))
def test_runs_with_numbers_hold_exactly_the_pages_and_theirs(pages: list[tuple[int, int]]) -> None:
    runs = zip(*runs_with([page for page, _ in pages], [number for _, number in pages]), strict=True)

    assert [(start + step, number) for start, length, number in runs for step in range(length)] == pages


def test_a_fact_that_belongs_to_no_leg_has_its_emitters_trace_and_nothing_of_a_leg() -> None:
    alarm: dict[str, Value] = {c.ALARM.name: "kv_canary"}
    of_nobody = Fact(c.ENGINE_ALARM, 9, 1, None, alarm)
    (sent,) = decode(encode_facts(SOURCE, [of_nobody]))
    (word,) = decode(encode_facts(SOURCE, [a_fact(c.EMITTER_STATUS, {})]))

    assert set(sent.values) == {"pagewitness.seq", "pagewitness.alarm"}
    assert sent.trace_id == word.trace_id
