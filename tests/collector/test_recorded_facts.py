"""What the hooks record and the agent encodes arrives in the store as it was recorded."""

from __future__ import annotations

from array import array
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from collector.store import Handle, Store
from engine_hooks.batch import next_batch
from engine_hooks.conventions import CANARY, EMITTER_STATUS, GENERATION, SPANS, column
from engine_hooks.conventions import PAGES as PAGES_ATTRIBUTE
from engine_hooks.delivery_recorder import DeliveryRecorder
from engine_hooks.encode import encode
from engine_hooks.facts import Fact, LegPart
from engine_hooks.recorder import Leg, Recorder
from engine_hooks.ring import Ring
from engine_hooks.spans import SpanSource, run_lengths, runs_with
from tests.engine_hooks.support import facts_in
from tests.engine_hooks.test_contract_1_rings import ring_of_contract_1
from tests.engine_hooks.test_page_recorder import CALLS as OF_PAGES
from tests.engine_hooks.test_page_recorder import OF_NO_LEG
from tests.engine_hooks.test_recorder import CALLS as OF_REQUESTS
from tests.engine_hooks.test_recorder import CONFIG, MORE_CONFIG
from tests.engine_hooks.test_transfer_recorder import CALLS as OF_TRANSFERS

UID = bytes(range(1, 17))
DIGEST = bytes(range(16, 32))
PAGES = array("i", [5, 6, 7, 0, 2, 1])


def record_everything(recorder: Recorder, tenant: bytes) -> None:
    """One fact of every kind and variant that the recorder can make, though no leg has them all."""
    leg = Leg(UID, tenant, "p1" if any(tenant) else "", "customer")
    recorder.node_config(
        node_id=DIGEST, role="decode", rank=0, ranks=2, engine="sglang", engine_version="0.5.19", model="m",
        context_tokens=4096, pool_tokens=8192, input_limit=4000, page_size=16, kv_dtype="bfloat16", kv_layers=2,
        backend="mooncake", prefix_cache=False, tier="control", hooks_attached=["a", "b"], hooks_missing=[],
    )  # fmt: skip
    limits: dict[str, Any] = {"input_limit": 4000, "context_tokens": 4096, "rid": DIGEST}
    recorder.admission(leg, state="admitted", reason="none", need_tokens=0, room=2**63 - 1, **limits)
    recorder.admission(leg, state="rejected", reason="grammar", need_tokens=9000, room=None, status=400, **limits)
    where: dict[str, Any] = {"room": 3, "session": "10.0.0.1:15000", "destination": DIGEST, "prefix_tokens": 0}
    recorder.transfer_reserved(leg, pages=PAGES, prompt_tokens=70, slot=0, **where)
    recorder.transfer_destination(leg, page_count=6, **where)
    recorder.transfer_queued(leg, pages=PAGES, chunk_page=0, chunk_tokens=70, sender_pages=6)
    recorder.transfer_committed(leg, prompt_tokens=70)
    recorder.transfer_refused(leg)
    recorder.read(leg, phase="first", tokens=70, row=0, row_generation=1)
    recorder.read(leg, phase="last", tokens=80)
    for pages, complete in ((PAGES, True), (array("i"), False)):
        recorder.release(
            leg, mode="deferred", pages=pages, complete=complete, prefix_tokens=0, written_start=70, written_end=80
        )
    recorder.response(leg, finish="stop", input_tokens=70, output_tokens=10, delivered=10)
    recorder.response(leg, finish="abort", input_tokens=70, output_tokens=1, delivered=0, status=400)
    recorder.end(leg, state="finished", queued_pages=6, queued_tokens=70, destination=DIGEST)


@pytest.mark.parametrize("tenant", [bytes(range(16)), bytes(16)], ids=["a tenant", "unattributed"])
def test_every_fact_that_can_be_recorded_is_stored_as_it_was(
    tenant: bytes, store: Store, handle: Handle, tmp_path: Path
) -> None:
    ring = Ring.create(tmp_path, "host1/recorded", capacity=64 << 10)
    record_everything(Recorder(ring), tenant)
    recorded = facts_in(ring)
    assert len(recorded) == 15
    source = SpanSource("host1/recorded", ring.boot)
    receipt = store.insert_otlp(encode([source.span(fact) for fact in recorded]))
    assert (receipt.stored, receipt.rejects) == (len(recorded), {})
    stored = handle.rows("SELECT * FROM facts WHERE boot = {boot:String} ORDER BY seq", {"boot": ring.boot.hex()})
    for fact, row in zip(recorded, stored, strict=True):
        assert present(row) == columns_of(fact), fact.span.name
    ring.close()


def test_every_call_of_the_recorders_arrives_in_the_store_as_it_was(
    store: Store, handle: Handle, tmp_path: Path
) -> None:
    ring = Ring.create(tmp_path, "host1/called", capacity=256 << 10)
    recorder, deliveries = Recorder(ring), DeliveryRecorder(ring)
    legs = count(1)
    for call, _ in (*OF_REQUESTS.values(), *OF_TRANSFERS.values(), *OF_PAGES.values()):
        assert call(recorder, Leg(next(legs).to_bytes(16, "big"), bytes(range(16)), "p1", "canary"))
    assert all(call(recorder) for call, _ in OF_NO_LEG.values())
    assert recorder.node_config(**CONFIG, **MORE_CONFIG)
    answered: dict[str, Any] = {"response_id": "r1", "tenant": "ab" * 16, "tenant_key": "p1", "traffic": "customer"}
    assert deliveries.delivery(state="complete", rid=DIGEST, status=200, client_salt=True, **answered)
    assert deliveries.delivery(state="failed", rid=None, status=None, client_salt=False, **answered)
    recorded = facts_in(ring)
    assert {fact.span for fact in recorded} == set(SPANS) - {EMITTER_STATUS, CANARY}

    source = SpanSource("host1/called", ring.boot)
    receipt = store.insert_otlp(encode([source.span(fact) for fact in recorded]))

    assert (receipt.stored, receipt.rejects) == (len(recorded), {})
    stored = handle.rows("SELECT * FROM facts WHERE boot = {boot:String} ORDER BY seq", {"boot": ring.boot.hex()})
    for fact, row in zip(recorded, stored, strict=True):
        assert present(row) == columns_of(fact), fact.span.name
    ring.close()


def test_a_ring_of_version_1_arrives_in_the_store_under_its_version(
    store: Store, handle: Handle, tmp_path: Path
) -> None:
    reader = ring_of_contract_1(tmp_path)
    source = SpanSource(reader.emitter, reader.boot, reader.contract)
    batch = next_batch(reader, reader.snapshot(), source)
    assert batch is not None

    receipt = store.insert_otlp(batch.body)

    assert (receipt.stored, receipt.rejects) == (9, {})
    sql = "SELECT contract, count() FROM facts WHERE boot = {boot:String} GROUP BY contract"
    assert handle.query(sql, {"boot": reader.boot.hex()}) == [(1, 9)]


def present(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of attributes that hold something."""
    ours = {"received_at", "emitter", "boot", "contract", "uid", "time", "content_hash", "contents"}
    return {name: value for name, value in row.items() if name not in ours and value not in (None, "", [])}


def columns_of(fact: Fact) -> dict[str, Any]:
    """What a fact should be in the store, without its empty lists."""
    columns: dict[str, Any] = {"span": fact.span.name, "seq": fact.seq} | columns_of_leg(fact.leg)
    for name, value in fact.values.items():
        if name == PAGES_ATTRIBUTE.name:
            columns |= columns_of_pages(value, fact.values.get(GENERATION.name))
        elif isinstance(value, array):
            if name != GENERATION.name:
                columns[column(name)] = value.tolist()
        elif isinstance(value, bytes):
            columns[column(name)] = value.hex()
        else:
            columns[column(name)] = list(value) if isinstance(value, tuple) else value
    return {name: value for name, value in columns.items() if value != []}


def columns_of_pages(pages: Any, generations: Any) -> dict[str, Any]:
    """The runs of a page list, and their generations where the pages have some."""
    names = [column(name) for name in PAGES_ATTRIBUTE.wire_names]
    if generations is None:
        return dict(zip(names, run_lengths(pages), strict=True))
    return dict(zip([*names, column(GENERATION.name)], runs_with(pages, generations), strict=True))


def columns_of_leg(leg: LegPart | None) -> dict[str, Any]:
    if leg is None:
        return {}
    columns = {"leg_ordinal": leg.ordinal, "tenant_id": leg.tenant, "tenant_key": leg.tenant_key}
    return {name: value for name, value in columns.items() if value != ""} | {"traffic": leg.traffic}
