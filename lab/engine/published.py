"""Truth and traffic as a capture holds them: request ids as keyed digests, tenants by name, and no text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab.engine.digests import rid_digest
from lab.engine.errors import LabError
from lab.engine.traffic import Outcome
from lab.engine.truth import NOBODY, ResponseTruth, SlotRead, Truth, ranges


def published_truth(truth: Truth, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The contents of truth.json. Raises LabError for an ambiguity, or a request that nobody of the script sent."""
    if truth.ambiguities:
        shown = "\n".join(f"  {ambiguity}" for ambiguity in truth.ambiguities[:10])
        raise LabError(f"{len(truth.ambiguities)} slots that were read have no one owner:\n{shown}")
    tenant_of = {outcome.rid: outcome.tenant for outcome in outcomes}
    seen = {response.rid for response in truth.responses}
    seen |= {slot.owner for each in truth.responses for slot in (*each.slots, *each.again)}
    if unknown := sorted(seen - tenant_of.keys() - {NOBODY}):
        raise LabError(f"the engine served requests that the script did not send: {', '.join(unknown[:5])}")
    return {
        "page_size": truth.page_size,
        "requests": [{"rid": rid_digest(rid), "tenant": tenant} for rid, tenant in tenant_of.items()],
        "responses": [_response(response, tenant_of) for response in truth.responses],
    }


def _response(response: ResponseTruth, tenant_of: dict[str, str]) -> dict[str, Any]:
    return {
        "rid": rid_digest(response.rid),
        "tenant": tenant_of[response.rid],
        "prompt_tokens": len(response.slots),
        "foreign_slots": len(response.foreign),
        "reads": _ranges(response.foreign, tenant_of),
        "shared": _ranges(response.shared, tenant_of),
    }


def _ranges(slots: tuple[SlotRead, ...], tenant_of: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "page": part.page,
            "slot_start": part.slot_start,
            "slot_end": part.slot_end,
            "token_start": part.token_start,
            "owner_rid": rid_digest(part.owner) if part.owner else "",
            "owner_tenant": tenant_of.get(part.owner, ""),
            "via": part.via,
        }
        for part in ranges(slots)
    ]


def published_traffic(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The contents of traffic.json."""
    return {
        "requests": [
            {
                "rid": rid_digest(outcome.rid),
                "tenant": outcome.tenant,
                "oversized": outcome.oversized,
                "prefill_status": outcome.prefill_status,
                "status": outcome.status,
                "finish": outcome.finish,
                "output_tokens": outcome.output_tokens,
                "own_markers": outcome.own,
                "foreign_markers": outcome.echoed,
                "did": outcome.did,
                "fake": outcome.fake,
                "salted": outcome.salted,
            }
            for outcome in outcomes
        ]
    }
