"""The delivery recorder leaves the fact that the contract promises, or counts why it did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine_hooks.delivery_recorder import DeliveryRecorder
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.support import a_ring, facts_in

SAID: dict[str, Any] = {
    "state": "complete", "response_id": "r" * 32, "rid": bytes(range(1, 17)), "tenant": "ab" * 16, "tenant_key": "p1",
    "traffic": "canary", "status": 200, "client_salt": False,
}  # fmt: skip
NAMES = {
    "state": "pagewitness.delivery.state", "response_id": "gen_ai.response.id", "rid": "pagewitness.rid",
    "tenant": "tenant.id", "tenant_key": "pagewitness.tenant.key", "traffic": "pagewitness.traffic",
    "status": "http.response.status_code", "client_salt": "pagewitness.gateway.client_salt",
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"rid": None}, {"tenant": "unattributed", "tenant_key": ""}, {"state": "cut", "status": None},
        {"state": "failed", "status": 500}, {"client_salt": True}, {"response_id": "ü"},
    ],
    ids=repr,
)  # fmt: skip
def test_a_delivery_is_recorded_as_it_is_said(tmp_path: Path, changed: dict[str, Any]) -> None:
    said = SAID | changed
    ring = a_ring(tmp_path)
    assert DeliveryRecorder(ring).delivery(**said)
    (fact,) = facts_in(ring)
    assert fact.span.name == "pagewitness.delivery"
    assert fact.leg is None
    assert fact.values == {NAMES[name]: value for name, value in said.items() if value not in (None, "")}


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "lost"}, {"state": "complete", "status": None}, {"rid": b"short"}, {"traffic": "visitor"},
        {"status": "200"},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_not_of_the_contract_is_counted_and_raises_nothing(tmp_path: Path, changed: dict[str, Any]) -> None:
    ring = a_ring(tmp_path)
    recorder = DeliveryRecorder(ring)
    recorder.delivery(**SAID)  # a lane, to count in
    assert not recorder.delivery(**SAID | changed)
    reader = RingReader.open(ring.path)
    assert reader.hook_errors == 1
    reader.close()
    assert len(facts_in(ring)) == 1


def test_a_closed_recorder_refuses(tmp_path: Path) -> None:
    recorder = DeliveryRecorder(a_ring(tmp_path))
    recorder.close()
    assert not recorder.delivery(**SAID)
