"""A fact is its identity: the same evidence in other batches, order or number changes no answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from collector.store import Handle, Store
from collector.store.writer import EvidenceWriter
from tests.collector.conftest import Rows
from tests.support.otlp import Fact, export

Made = Callable[..., Fact]

ALL = "* EXCEPT received_at, toUnixTimestamp64Nano(received_at) AS at"
READ = "pagewitness.page.read"


def some_facts(made: Made, count: int = 30) -> list[Fact]:
    return [made(READ, seq=seq, ordinal=seq, read_tokens=100 + seq) for seq in range(1, count + 1)]


def restart(store: Store) -> EvidenceWriter:
    """A writer that knows nothing but what the store holds."""
    return EvidenceWriter(store.handle())


def test_a_batch_that_comes_again_changes_nothing(store: Store, made: Made, facts: Rows) -> None:
    body = export(*some_facts(made))
    store.insert_otlp(body)
    before = facts(ALL)
    assert store.insert_otlp(body).stored == 30
    assert facts(ALL) == before
    assert len(before) == 30


@pytest.mark.parametrize("seed", range(3))
def test_other_batches_order_and_number_change_nothing(seed: int, store: Store, made: Made, facts: Rows) -> None:
    sent = some_facts(made)
    store.insert_otlp(export(*sent))
    before = facts(ALL)
    draw = random.Random(seed)
    for _ in range(4):
        store.insert_otlp(export(*draw.choices(sent, k=draw.randint(1, 40))))
    assert facts(ALL) == before


def test_facts_in_any_order_of_arrival_are_the_same_facts(store: Store, made: Made, facts: Rows) -> None:
    sent = some_facts(made)
    for one in random.Random(1).sample(sent, k=len(sent))[:10]:
        store.insert_otlp(export(one))
    store.insert_otlp(export(*reversed(sent)))
    assert [(row["seq"], row["read_tokens"], row["contents"]) for row in facts("seq, read_tokens, contents")] == [
        (seq, 100 + seq, 1) for seq in range(1, 31)
    ]


def test_a_fact_twice_in_one_batch_is_one_fact(store: Store, made: Made, facts: Rows) -> None:
    one = made(READ)
    store.insert_otlp(export(one, one, one))
    assert facts("seq, contents") == [{"seq": 1, "contents": 1}]


def test_the_order_of_attributes_means_nothing(store: Store, made: Made, facts: Rows) -> None:
    one = made(READ)
    turned = Fact(one.span, one.emitter, one.boot, one.uid, one.time_ns, dict(reversed(list(one.attributes.items()))))
    store.insert_otlp(export(one))
    store.insert_otlp(export(turned))
    assert facts("contents") == [{"contents": 1}]


def test_a_replay_after_a_restart_changes_nothing(store: Store, made: Made, facts: Rows) -> None:
    body = export(*some_facts(made))
    store.insert_otlp(body)
    before = facts(ALL)
    restarted = restart(store)
    restarted.insert([body])
    restarted.insert([export(*some_facts(made, 40)[25:])])
    assert facts(ALL)[:30] == before
    assert [row["seq"] for row in facts("seq")] == list(range(1, 41))


@pytest.mark.parametrize(
    "change",
    [
        {"read_tokens": 999},
        {"uid": "0f" * 16},
        {"time_ns": 1_790_000_000_000_000_001},
        {"ordinal": 2},
        {"tenant": "cc" * 16},
        {"row": 5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_identity_with_two_contents_is_seen(change: dict[str, Any], store: Store, made: Made, facts: Rows) -> None:
    store.insert_otlp(export(made(READ, seq=1), made(READ, seq=2)))
    store.insert_otlp(export(made(READ, seq=1, **change)))
    assert facts("seq, contents") == [{"seq": 1, "contents": 2}, {"seq": 2, "contents": 1}]


def test_two_contents_of_one_batch_are_seen(store: Store, made: Made, facts: Rows) -> None:
    store.insert_otlp(export(made(READ, read_tokens=5), made(READ, read_tokens=6)))
    assert facts("contents") == [{"contents": 2}]


def test_two_contents_on_either_side_of_a_restart_are_seen(store: Store, made: Made, facts: Rows) -> None:
    store.insert_otlp(export(made(READ, seq=1), made(READ, seq=2)))
    restart(store).insert([export(made(READ, seq=1, read_tokens=77))])
    assert [row["contents"] for row in facts("contents")] == [2, 1]


def test_two_contents_in_requests_that_are_stored_together_are_seen(store: Store, made: Made, facts: Rows) -> None:
    restart(store).insert([export(made(READ, read_tokens=5)), export(made(READ, read_tokens=6))])
    assert facts("contents") == [{"contents": 2}]


def test_a_contradicted_fact_stays_where_a_filter_looks_for_one_content(
    store: Store, made: Made, handle: Handle, boot: str
) -> None:
    store.insert_otlp(export(made(READ, uid="01" * 16)))
    store.insert_otlp(export(made(READ, uid="02" * 16)))
    shown = handle.query("SELECT uid, contents FROM facts WHERE boot = {boot:String}", {"boot": boot})
    assert [contents for _, contents in shown] == [2]
    by_uid = "SELECT contents FROM facts WHERE boot = {boot:String} AND uid = {uid:String}"
    assert handle.query(by_uid, {"boot": boot, "uid": shown[0][0]}) == [(2,)]


@pytest.mark.parametrize("order", [[5, 6, 7], [7, 6, 5], [6, 7, 5]])
def test_the_content_that_is_shown_does_not_depend_on_the_order(
    order: list[int], store: Store, made: Made, facts: Rows, handle: Handle, boot: str
) -> None:
    for tokens in order:
        store.insert_otlp(export(made(READ, read_tokens=tokens)))
    least = handle.query("SELECT min(content_hash) FROM contradictions WHERE boot = {boot:String}", {"boot": boot})
    assert facts("contents, content_hash") == [{"contents": 2, "content_hash": least[0][0]}]


def test_the_same_seq_of_another_boot_is_another_fact(store: Store, made: Made, facts: Rows) -> None:
    store.insert_otlp(export(made(READ)))
    store.insert_otlp(export(made(READ, boot="cd" * 16, read_tokens=3)))
    assert facts("contents") == [{"contents": 1}]


def test_every_request_has_a_later_time_of_receipt(store: Store, made: Made, facts: Rows) -> None:
    for seq in range(1, 6):
        store.insert_otlp(export(made(READ, seq=seq)))
    times = [row["at"] for row in facts("toUnixTimestamp64Nano(received_at) AS at")]
    assert times == sorted(set(times))
