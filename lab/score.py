"""Scores what the service answers against the truth of a run: recipients, donors, and every slot between them.

The lists are those that `notify affected` prints for each tenant, in both roles; the slots are those of the operator's
view of each affected response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.captures.compare import Comparison, compare
from lab.service import ServiceProcess
from notify.answers import DonorAnswer, OperatorResponseAnswer, RecipientAnswer, ResponsesAnswer

Listed = frozenset[tuple[str, str]]
"""(tenant, keyed digest of a request id)"""


@dataclass(frozen=True, slots=True)
class Score:
    """What was answered, and what is true. `details` are the affected responses as the operator sees them."""

    recipients: Listed
    donors: Listed
    true_recipients: Listed
    true_donors: Listed
    slots: Comparison
    unknown: int
    details: tuple[OperatorResponseAnswer, ...]

    @property
    def affected(self) -> int:
        """Responses that the tenants' lists name."""
        return len(self.recipients)

    @property
    def truth(self) -> int:
        """Responses that read another tenant's KV, by memory content."""
        return len(self.true_recipients)

    @property
    def false(self) -> int:
        """Requests of which the answers say something untrue: a recipient, a donor, or a slot of theirs."""
        lists = (self.recipients - self.true_recipients) | (self.donors - self.true_donors)
        slots = {slot.recipient for slot in self.slots.false_slots} | self.slots.false_recipients
        return len({rid for _tenant, rid in lists} | slots)

    @property
    def missed(self) -> int:
        """Requests of which the answers leave something true out."""
        lists = (self.true_recipients - self.recipients) | (self.true_donors - self.donors)
        slots = {slot.recipient for slot in self.slots.missed_slots} | self.slots.missed_recipients
        return len({rid for _tenant, rid in lists} | slots)

    def as_json(self) -> dict[str, int]:
        """The figures, for the last line."""
        return {
            "affected": self.affected,
            "truth": self.truth,
            "false": self.false,
            "missed": self.missed,
            "unknown": self.unknown,
        }


def score(service: ServiceProcess, truth: Mapping[str, Any], tenants: Iterable[str]) -> Score:
    """Ask the service about each tenant and each response, and compare."""
    with service.client() as client:
        listing = ResponsesAnswer.model_validate(client.get("operator/responses", verdict="all"))
        rid_of = {row.response_id: row.rid for row in listing.responses}
        recipients, donors = set(), set()
        for tenant in tenants:
            received = RecipientAnswer.model_validate(client.get("affected", tenant=tenant, role="recipient"))
            recipients |= {(tenant, rid_of[row.response_id]) for row in received.responses}
            exposed = DonorAnswer.model_validate(client.get("affected", tenant=tenant, role="donor"))
            donors |= {(tenant, rid_of.get(row.response_id, row.response_id)) for row in exposed.responses}
        affected = [row for row in listing.responses if row.verdict == "violation"]
        details = tuple(
            OperatorResponseAnswer.model_validate(client.get(f"responses/{row.response_id}")) for row in affected
        )
    return Score(
        recipients=frozenset(recipients),
        donors=frozenset(donors),
        true_recipients=true_recipients(truth),
        true_donors=true_donors(truth),
        slots=compare(truth, _ranges(details), _responses(listing)),
        unknown=listing.counts.unknown + listing.counts.pending,
        details=details,
    )


def true_recipients(truth: Mapping[str, Any]) -> Listed:
    """Responses that read bytes of another tenant."""
    return frozenset(
        (response["tenant"], response["rid"])
        for response in truth["responses"]
        if any(read["owner_tenant"] not in ("", response["tenant"]) for read in response["reads"])
    )


def true_donors(truth: Mapping[str, Any]) -> Listed:
    """Requests whose bytes a response of another tenant read."""
    return frozenset(
        (read["owner_tenant"], read["owner_rid"])
        for response in truth["responses"]
        for read in response["reads"]
        if read["owner_tenant"] not in ("", response["tenant"])
    )


def _responses(listing: ResponsesAnswer) -> list[dict[str, Any]]:
    return [{"response_uid": row.response_id, "rid": row.rid, "verdict": row.verdict} for row in listing.responses]


def _ranges(details: Iterable[OperatorResponseAnswer]) -> list[dict[str, Any]]:
    return [
        {
            "response_uid": detail.response_id,
            "page": read.page,
            "slot_start": read.slot_start,
            "slot_end": read.slot_end,
            "donor_rid": read.donor_rid,
            "scope": read.scope,
        }
        for detail in details
        for read in detail.reads
    ]
