"""An engine that still records under version 1 of the contract is read as what it says, by an agent of now.

The ring below was written by the hooks of that version: its bytes never change, whatever becomes of the contract.
"""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from engine_hooks import conventions as c
from engine_hooks.batch import next_batch
from engine_hooks.facts import LAYOUTS_BY_VERSION, FactError, unpack_fact
from engine_hooks.ring_reader import RingReader
from engine_hooks.spans import SpanSource
from tests.engine_hooks.receiver import decode

RING = """
H4sIAAAAAAACA+3YP2hTQQDH8bvkpUnT9I9bF3FwKVJiX6RKiv+mqoMiIrgV0jS2NE1foU3pVB3d7CK6Oik4qODk5KCrqFuHQimF
FOoudole353vcg02D9pB+X5COF64e/e7Py9w7/a9OzduXevNShEypbjaej06G5Yv9rYGxe73QXFEzP27j+h+cfPNBItL/tmpSjmY
qoh/WO73t/BzduLrx9f5h/Xn2/UzT+8+3vwxfGjDgdb1HkoJAAAAAMB/6IM+g5tz+PLJxv75udlMC5lIeqmudKY725Pr7esfsOsl
dNmlv9I9T2bCYi/d9uc/7c11UpfvPjUuFNaql16Nb6yufxuuLE7PleanR/Kjeb9Ym7w/F5SW/PO1IJgvl6qVUnbykbqXjO53+nqj
3fn/wGAW/Oj9wwOrYsp5H5HV5U3zvsKZE3sekzIaR+FZvBwqf/OEXTHq3+0zZ82XCVDocL39kbz6+GNFT482HOkbnd/T9Z68j5df
5Sn3qayHZ/Ds/eIwzaWzL4SzX17qvGa9qp/j5fV0+wMddKjT+Z5RfcnwGdnPuR0vpxpfv1XxnNPQxF9RdWW0b94mdmL1o/Jd0fOe
abM+ZrwXrTVU2RZUWxmty/hQvH5V3lPWuq/J1v7cHGqcaRk9n18ux+svo/uTzn5q918n/rJPAQAAAAAAAAAAAAAAAAAAAAAAAAAA
gOPwC7uK8fkAUAAA
"""

SAID = [
    (
        "pagewitness.node.config",
        {
            "pagewitness.node.id": "0102030405060708090a0b0c0d0e0f10",
            "pagewitness.node.role": "decode",
            "pagewitness.rank": 1,
            "pagewitness.ranks": 2,
            "pagewitness.engine": "sglang",
            "pagewitness.engine.version": "0.5.19",
            "gen_ai.request.model": "m",
            "pagewitness.context.tokens": 4096,
            "pagewitness.pool.tokens": 2048,
            "pagewitness.input.limit": 2042,
            "pagewitness.page.size": 16,
            "pagewitness.kv.dtype": "bfloat16",
            "pagewitness.kv.layers": 2,
            "pagewitness.transfer.backend": "mooncake",
            "pagewitness.prefix_cache": False,
            "pagewitness.tier": "control",
            "pagewitness.hooks.attached": ["a", "b"],
            "pagewitness.hooks.missing": [],
            "pagewitness.config.fingerprint": "b4c5e73732906b3dab46dd7ed9d22c65",
        },
    ),
    (
        "pagewitness.request.admission",
        {
            "pagewitness.admission.state": "admitted",
            "pagewitness.admission.reason": "none",
            "pagewitness.tokens.need": 5,
            "pagewitness.input.limit": 9,
            "pagewitness.context.tokens": 10,
            "pagewitness.room": 77,
            "pagewitness.rid": "0102030405060708090a0b0c0d0e0f10",
        },
    ),
    (
        "pagewitness.transfer",
        {
            "pagewitness.transfer.side": "receive",
            "pagewitness.transfer.status": "reserved",
            "pagewitness.room": 7,
            "pagewitness.transfer.session": "10.0.0.1:9",
            "pagewitness.transfer.destination": "0102030405060708090a0b0c0d0e0f10",
            "pagewitness.pages.start": [4, 9],
            "pagewitness.pages.length": [2, 1],
            "pagewitness.page.count": 3,
            "pagewitness.prefix.tokens": 16,
            "pagewitness.prompt.tokens": 50,
            "pagewitness.slot": 0,
        },
    ),
    (
        "pagewitness.transfer",
        {
            "pagewitness.transfer.side": "send",
            "pagewitness.transfer.status": "queued",
            "pagewitness.pages.start": [8],
            "pagewitness.pages.length": [1],
            "pagewitness.page.count": 1,
            "pagewitness.chunk.page": 2,
            "pagewitness.chunk.tokens": 1,
            "pagewitness.sender.pages": 3,
        },
    ),
    (
        "pagewitness.transfer",
        {
            "pagewitness.transfer.side": "receive",
            "pagewitness.transfer.status": "committed",
            "pagewitness.prompt.tokens": 50,
        },
    ),
    (
        "pagewitness.page.read",
        {
            "pagewitness.read.phase": "first",
            "pagewitness.read.tokens": 51,
            "pagewitness.row": 0,
            "pagewitness.row_generation": 3,
        },
    ),
    (
        "pagewitness.page.release",
        {
            "pagewitness.release.mode": "deferred",
            "pagewitness.pages.start": [4],
            "pagewitness.pages.length": [2],
            "pagewitness.pages.complete": True,
            "pagewitness.prefix.tokens": 0,
            "pagewitness.written.start": 50,
            "pagewitness.written.end": 60,
        },
    ),
    (
        "pagewitness.response",
        {
            "pagewitness.finish": "abort",
            "http.response.status_code": 400,
            "gen_ai.usage.input_tokens": 50,
            "gen_ai.usage.output_tokens": 1,
            "pagewitness.tokens_delivered": 0,
        },
    ),
    (
        "pagewitness.request.end",
        {
            "pagewitness.end.state": "aborted",
            "pagewitness.leg.facts": 8,
            "pagewitness.transfer.destination": "0102030405060708090a0b0c0d0e0f10",
            "pagewitness.queued.pages": 1,
            "pagewitness.queued.tokens": 1,
        },
    ),
]
"""Each fact of it: the span, and what it says beside its identity and its leg."""

OF_THE_LEG = {
    "tenant.id": "000102030405060708090a0b0c0d0e0f",
    "pagewitness.tenant.key": "p1",
    "pagewitness.traffic": "internal",
}
SIZES = {
    "pagewitness.node.config": 160,
    "pagewitness.request.admission": 136,
    "pagewitness.transfer": 168,
    "pagewitness.page.read": 104,
    "pagewitness.page.release": 112,
    "pagewitness.response": 112,
    "pagewitness.request.end": 120,
    "pagewitness.emitter": 88,
}
"""Bytes of a record without tails, as version 1 laid them out."""


WORDS = {
    "node.role": "prefill decode unified",
    "tier": "control exact",
    "traffic": "customer internal researcher canary",
    "admission.state": "admitted rejected",
    "admission.reason": "none input_too_long grammar no_room multimodal unsupported other",
    "transfer.side": "receive send",
    "transfer.status": "reserved destination queued committed refused",
    "read.phase": "first last",
    "release.mode": "immediate deferred timeout evict retract",
    "finish": "stop length abort other",
    "end.state": "finished aborted rejected failed retracted",
    "close": "open clean crashed",
}
"""The words of version 1 in their order: a record holds their place."""


def ring_of_contract_1(directory: Path) -> RingReader:
    """The ring in this directory, opened."""
    path = directory / "host1+decode-32f96a5ed1c4af2e8075a1e4752a9754.ring"
    path.write_bytes(gzip.decompress(base64.b64decode(RING)))
    return RingReader.open(path)


@pytest.fixture
def reader(tmp_path: Path) -> RingReader:
    return ring_of_contract_1(tmp_path)


def test_every_fact_of_it_says_what_it_said(reader: RingReader) -> None:
    batch = next_batch(reader, reader.snapshot(), SpanSource(reader.emitter, reader.boot, reader.contract))

    assert batch is not None
    sent = decode(batch.body)
    common = {field.attribute.name for field in (*c.COMMON_FIELDS, *c.LEG_FIELDS)}
    assert [
        (one.name, {name: value for name, value in one.values.items() if name not in common}) for one in sent
    ] == SAID
    assert [one.values["pagewitness.seq"] for one in sent] == list(range(1, len(SAID) + 1))
    assert [one.values.get("pagewitness.leg.ordinal") for one in sent] == [None, *range(1, len(SAID))]
    assert all({name: one.values[name] for name in OF_THE_LEG} == OF_THE_LEG for one in sent[1:])


def test_what_it_sends_says_under_which_version_it_was_recorded(reader: RingReader) -> None:
    source = SpanSource(reader.emitter, reader.boot, reader.contract)

    assert source.resource.attributes["pagewitness.contract"] == reader.contract == 1


def test_its_records_are_no_facts_of_another_version(reader: RingReader) -> None:
    record = reader.next(reader.snapshot())

    assert record is not None
    assert unpack_fact(record, 1).span is c.NODE_CONFIG
    with pytest.raises(FactError):
        unpack_fact(record, c.CONTRACT_VERSION + 1)


def test_the_layout_of_version_1_never_changes() -> None:
    assert {layout.span.name: layout.size for layout in LAYOUTS_BY_VERSION[1].values()} == SIZES


def test_a_layout_has_what_its_version_knew_and_a_later_one_adds_to_its_end() -> None:
    for code, old in LAYOUTS_BY_VERSION[1].items():
        new = LAYOUTS_BY_VERSION[c.CONTRACT_VERSION][code]
        assert new.attributes[: len(old.attributes)] == old.attributes
        assert {field.attribute for field in new.span.fields if field.since > 1} == set(
            new.attributes[len(old.attributes) :]
        )


@pytest.mark.parametrize("name", WORDS)
def test_a_word_of_version_1_keeps_its_place(name: str) -> None:
    attribute = next(one for one in c.attributes() if one.name == f"pagewitness.{name}")
    words = tuple(WORDS[name].split())
    assert attribute.choices[: len(words)] == words


def test_what_a_version_added_to_a_span_is_never_required() -> None:
    for span in c.SPANS:
        assert not [field for field in span.fields if field.since > span.since and field.required]
