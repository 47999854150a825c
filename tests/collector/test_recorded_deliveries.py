"""What a gateway records arrives in the store as it was recorded, and nothing of it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.store import Handle, Store
from engine_hooks.delivery_recorder import DeliveryRecorder
from engine_hooks.encode import encode
from engine_hooks.ring import Ring
from engine_hooks.spans import SpanSource
from tests.engine_hooks.support import facts_in

SAID: dict[str, Any] = {
    "state": "complete", "response_id": "ab" * 16, "rid": bytes(range(1, 17)), "tenant": "cd" * 16, "tenant_key": "p1",
    "traffic": "internal", "status": 200, "client_salt": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"rid": None}, {"state": "cut", "status": None}, {"state": "failed", "status": 500},
        {"tenant": "unattributed", "tenant_key": "", "client_salt": False},
    ],
    ids=["complete", "no id", "cut before it began", "failed", "nobody's"],
)  # fmt: skip
def test_a_delivery_is_stored_as_it_was_recorded(
    changed: dict[str, Any], store: Store, handle: Handle, tmp_path: Path
) -> None:
    said = SAID | changed
    ring = Ring.create(tmp_path, "host1/gateway-1", capacity=64 << 10)
    DeliveryRecorder(ring).delivery(**said)
    source = SpanSource("host1/gateway-1", ring.boot)
    receipt = store.insert_otlp(encode([source.span(fact) for fact in facts_in(ring)]))
    assert (receipt.stored, receipt.rejects) == (1, {})
    (row,) = handle.rows("SELECT * FROM facts WHERE boot = {boot:String}", {"boot": ring.boot.hex()})
    ring.close()
    assert {
        "state": row["delivery_state"],
        "response_id": row["gen_ai_response_id"],
        "rid": bytes.fromhex(row["rid"]) if row["rid"] else None,
        "tenant": row["tenant_id"],
        "tenant_key": row["tenant_key"],
        "traffic": row["traffic"],
        "status": row["http_response_status_code"],
        "client_salt": row["gateway_client_salt"],
    } == said
