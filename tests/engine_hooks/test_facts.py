"""The packed form holds exactly what the contract says, for every span of it."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_hooks import conventions as c
from engine_hooks.facts import (
    HEADER,
    IDENTITY,
    LAYOUTS,
    LAYOUTS_BY_VERSION,
    FactError,
    Value,
    layout_of,
    page_bytes,
    unpack_fact,
)
from tests.engine_hooks.support import page_list

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
BY_TYPE: dict[c.Type, st.SearchStrategy[Value]] = {
    c.Type.INT: INT64,
    c.Type.BOOL: st.booleans(),
    c.Type.DIGEST: st.binary(min_size=16, max_size=16).filter(any),
    c.Type.TEXT: TEXT,
    c.Type.TEXTS: st.lists(TEXT.filter(lambda text: text and "\n" not in text), max_size=4).map(tuple),
    c.Type.PAGES: st.lists(st.integers(-(2**31), 2**31 - 1), max_size=60).map(lambda ids: array("i", ids)),
    c.Type.INTS: st.lists(st.integers(-(2**31), 2**31 - 1), max_size=60).map(lambda ids: array("i", ids)),
}


def values_of(attribute: c.Attribute) -> st.SearchStrategy[Value]:
    return st.sampled_from(attribute.choices) if attribute.type is c.Type.ENUM else BY_TYPE[attribute.type]


VERSIONS = sorted(LAYOUTS_BY_VERSION)


@st.composite
def span_values(draw: st.DrawFn, version: int = c.CONTRACT_VERSION) -> tuple[c.Span, dict[str, Value]]:
    """A span of a version of the contract, with every required attribute of a variant and some of the others."""
    span = draw(st.sampled_from([span for span in c.SPANS if span.since <= version]))
    variant = draw(st.sampled_from(span.variant.choices)) if span.variant else None
    values: dict[str, Value] = {}
    for field in (field for field in span.fields if field.since <= version):
        if field.attribute is span.variant:
            values[field.attribute.name] = str(variant)
        elif field.attribute.type is c.Type.PER_PAGE:
            pages = values.get(c.PAGES.name)
            if isinstance(pages, array) and draw(st.booleans()):
                counts = st.lists(st.integers(1, 2**31 - 1), min_size=len(pages), max_size=len(pages))
                values[field.attribute.name] = array("i", draw(counts))
        elif field.is_required(variant) or draw(st.booleans()):
            values[field.attribute.name] = draw(values_of(field.attribute))
    return span, values


def a_record(
    span: c.Span,
    values: dict[str, Value],
    *,
    traffic: int = 0,
    identity: bytes = b"",
    version: int = c.CONTRACT_VERSION,
) -> memoryview:
    layout = LAYOUTS_BY_VERSION[version][span.code]
    arguments, text, pages = layout.pack(values)
    prefix: list[object] = [identity or IDENTITY.pack(b"u" * 16, b"t" * 16, b"p1"), 3] if span.leg else []
    body = layout.struct.pack(*prefix, *arguments) + text + (pages.tobytes() if pages is not None else b"")
    size = HEADER.size + len(body)
    return memoryview(HEADER.pack(size, span.code, traffic, 9, 123) + body + bytes(-size % 8))


CONFIG_END: dict[str, Value] = {
    "pagewitness.end.state": "finished",
    "pagewitness.leg.facts": 3,
    "pagewitness.queued.pages": 0,
    "pagewitness.queued.tokens": 0,
}


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_what_is_packed_under_a_version_is_what_is_unpacked_under_it(version: int, data: st.DataObject) -> None:
    span, values = data.draw(span_values(version))

    fact = unpack_fact(a_record(span, values, version=version), version)

    assert (fact.span, fact.seq, fact.time_ns) == (span, 9, 123)
    assert fact.values == values
    assert (fact.leg is not None) == span.leg


@given(
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16).filter(any),
    st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8),
    st.sampled_from(c.TRAFFIC.choices),
)
def test_a_leg_keeps_its_uid_tenant_key_and_traffic(uid: bytes, tenant: bytes, key: str, traffic: str) -> None:
    identity = IDENTITY.pack(uid, tenant, key.encode())

    fact = unpack_fact(
        a_record(c.REQUEST_END, CONFIG_END, traffic=c.TRAFFIC.choices.index(traffic), identity=identity)
    )  # fmt: skip

    assert fact.leg is not None
    assert (fact.leg.uid, fact.leg.tenant, fact.leg.tenant_key, fact.leg.traffic) == (uid, tenant.hex(), key, traffic)
    assert fact.leg.ordinal == 3


def test_a_zero_tenant_is_unattributed_and_has_no_key() -> None:
    fact = unpack_fact(a_record(c.REQUEST_END, CONFIG_END, identity=IDENTITY.pack(b"u" * 16, bytes(16), b"p1")))

    assert fact.leg is not None
    assert (fact.leg.tenant, fact.leg.tenant_key) == (c.UNATTRIBUTED, "")


@pytest.mark.parametrize("span", [span for span in c.SPANS if span.legless], ids=lambda span: span.name)
def test_a_fact_that_may_have_no_leg_has_none_where_the_uid_is_zero(span: c.Span) -> None:
    values: dict[str, Value] = {
        field.attribute.name: field.attribute.choices[0] if field.attribute.choices else "text"
        for field in span.fields
        if field.is_required(None)
    }

    assert unpack_fact(a_record(span, values, identity=bytes(IDENTITY.size))).leg is None
    assert unpack_fact(a_record(span, values)).leg is not None


@pytest.mark.parametrize("counts", [array("i"), array("i", [1]), array("i", [1, 2, 3])])
def test_generations_that_are_not_one_for_each_page_are_no_fact(counts: array[int]) -> None:
    values: dict[str, Value] = {
        "pagewitness.free.cause": "release",
        "pagewitness.pages": page_list(4, 5),
        "pagewitness.page.generation": counts,
    }

    with pytest.raises(FactError, match=r"page\.generation is not one for each page"):
        unpack_fact(a_record(c.PAGE_FREE, values))


@given(span_values(), st.data())
def test_a_required_attribute_cannot_be_left_out(example: tuple[c.Span, dict[str, Value]], data: st.DataObject) -> None:
    span, values = example
    variant = str(values[span.variant.name]) if span.variant else None
    required = [field.attribute.name for field in span.fields if field.is_required(variant)]
    del values[
        data.draw(st.sampled_from([name for name in required if span.variant is None or name != span.variant.name]))
    ]

    with pytest.raises(FactError, match="needs"):
        layout_of(span).pack(values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pagewitness.end.state", "vanished"),
        ("pagewitness.leg.facts", "three"),
        ("pagewitness.transfer.destination", b"short"),
        ("pagewitness.prompt", "text"),
    ],
)
def test_a_value_outside_the_contract_is_refused(name: str, value: Value) -> None:
    with pytest.raises(FactError, match=name.replace(".", r"\.")):
        layout_of(c.REQUEST_END).pack({**CONFIG_END, name: value})


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_fact_or_a_fact_error(noise: bytes) -> None:
    try:
        fact = unpack_fact(memoryview(noise))
    except FactError:
        return
    assert fact.span.code in LAYOUTS


@given(span_values(), st.data())
def test_a_cut_record_is_never_another_fact(example: tuple[c.Span, dict[str, Value]], data: st.DataObject) -> None:
    span, values = example
    record = a_record(span, values)
    padding = 7
    cut = record[: data.draw(st.integers(0, len(record) - 1 - padding))]

    try:
        fact = unpack_fact(cut)
    except FactError:
        return
    assert fact.values == values  # only padding was cut off


def test_page_ids_of_another_width_are_refused() -> None:
    with pytest.raises(TypeError, match="int32"):
        page_bytes(array("q", [1, 2]))


def test_a_strided_page_list_is_recorded_in_its_own_order() -> None:
    assert page_bytes(memoryview(page_list(1, 2, 3, 4))[::2]).tobytes() == page_list(1, 3).tobytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_span_code_and_presence_bit_is_its_own(version: int) -> None:
    layouts = LAYOUTS_BY_VERSION[version]
    for layout in layouts.values():
        bits = [layout.presence(attribute.name) for attribute in layout.attributes]
        assert sum(bits) == (1 << len(bits)) - 1
    assert len(layouts) == len([span for span in c.SPANS if span.since <= version])
