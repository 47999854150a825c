"""One row a joined request: what every rule reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from detectors.boots import EPOCH, Boots
from detectors.clocks import Clocks
from detectors.joins import Join
from detectors.landings import took_early
from detectors.legs import Leg
from detectors.prefixes import Run
from detectors.queries import Queries

COLUMNS = (
    "response_uid",
    "prefill_uid",
    "join_basis",
    "tenant",
    "tenant_key",
    "decode_node",
    "prefill_node",
    "started",
    "decode_ended",
    "prefill_ended",
    "prefill_ended_by",
    "decode_rejected",
    "prefill_rejected",
    "progress_after_reject",
    "reused_identities",
    "reserved_at",
    "reserved_pages",
    "prompt_tokens",
    "covered_to",
    "queued_pages",
    "committed",
    "took_early",
    "refused",
    "read_tokens",
    "decode_end_state",
    "prefill_end_state",
    "seen_to",
    "tainted_from",
    "tainted_to",
)


def progress_after_reject(join: Join) -> list[str]:
    """What went on after one of the legs was rejected at admission, in words of the contract."""
    decode, prefill = join.decode, join.prefill
    progress = []
    for role, leg in (("prefill", prefill), ("decode", decode)):
        if leg is not None and leg.reject_seq is not None and any(seq > leg.reject_seq for seq in leg.progress_seqs):
            progress.append(f"{role}_went_on")
    if prefill is not None and prefill.rejected:
        if decode.committed:
            progress.append("decode_committed")
        if decode.read_tokens is not None:
            progress.append("decode_read")
    return progress


def recipient_tenant(join: Join) -> tuple[str, str]:
    """(tenant, key id) of the request: the decode leg's, else the prefill leg's, where only one was vouched for."""
    legs = [leg for leg in (join.decode, join.prefill) if leg is not None]
    vouched = [leg for leg in legs if leg.tenant_key]
    leg = vouched[0] if vouched else legs[0]
    return leg.tenant, leg.tenant_key


def rollup_row(
    join: Join,
    covered: int | None,
    reused: list[str],
    boots: Boots,
    clocks: Clocks,
    watermark: datetime,
    tainted: Sequence[Run] = (),
) -> list[Any]:
    """The row of one request, in the order of COLUMNS. `watermark` is by the receiver's clock."""
    decode, prefill = join.decode, join.prefill
    decode_config = boots.get(decode.emitter, decode.boot).config
    prefill_config = boots.get(prefill.emitter, prefill.boot).config if prefill else None
    tenant, tenant_key = recipient_tenant(join)
    return [
        decode.uid,
        prefill.uid if prefill else "",
        join.basis,
        tenant,
        tenant_key,
        decode_config.node if decode_config else "",
        prefill_config.node if prefill_config else "",
        decode.started,
        decode.ended,
        prefill.ended if prefill else None,
        _by_decodes_clock(decode, prefill, clocks),
        decode.rejected,
        bool(prefill and prefill.rejected),
        progress_after_reject(join),
        reused,
        decode.reserved_at,
        decode.reserved_pages,
        decode.prompt_tokens,
        covered,
        sum(len(chunk.pages) for chunk in prefill.chunks) if prefill else None,
        decode.committed,
        prefill is not None and took_early(decode, decode_config),
        decode.refused,
        decode.read_tokens,
        decode.end_state,
        prefill.end_state if prefill else "",
        watermark - clocks.to_receiver(decode.emitter, decode.boot, watermark).high if watermark > EPOCH else EPOCH,
        min((run.start for run in tainted), default=None),
        max((run.end for run in tainted), default=None),
    ]


def _by_decodes_clock(decode: Leg, prefill: Leg | None, clocks: Clocks) -> datetime | None:
    """When the prefill leg had ended for sure, as the decode node's clock showed it."""
    if prefill is None or prefill.ended is None:
        return None
    return prefill.ended + clocks.between(prefill, decode, prefill.ended).high


def fill(store: Queries, rows: Sequence[Sequence[Any]]) -> None:
    """Replace the rollup with these rows."""
    store.command("TRUNCATE TABLE request_rollup")
    if rows:
        store.insert("request_rollup", COLUMNS, rows)
