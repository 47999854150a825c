"""Compares an answer of the detection with the truth of a capture: exactly, per response and per slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

VIOLATION = "violation"

NOBODY = "nobody"
"""Donor of a slot that nothing ever wrote."""


@dataclass(frozen=True, slots=True, order=True)
class ForeignSlot:
    """One slot of foreign KV that a response read: keyed digests of both requests, page, slot inside the page.

    `donor` is NOBODY for a slot that nothing ever wrote.
    """

    recipient: str
    page: int
    slot: int
    donor: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the truth says, and where the answer differs from it.

    `false_*` is in the answer and not in the truth, `missed_*` the other way round. A slot whose donor the answer
    leaves open (an empty donor) is a false slot, and the same slot with its donor a missed one: nothing is guessed in
    its favour.
    """

    recipients: frozenset[str]
    slots: frozenset[ForeignSlot]
    false_recipients: frozenset[str]
    missed_recipients: frozenset[str]
    false_slots: frozenset[ForeignSlot]
    missed_slots: frozenset[ForeignSlot]

    @property
    def equal(self) -> bool:
        """Whether the answer is the truth: recipients and donors, slot by slot."""
        return not (self.false_recipients or self.missed_recipients or self.false_slots or self.missed_slots)

    def __str__(self) -> str:
        if self.equal:
            return f"equal to the truth: {len(self.recipients)} responses, {len(self.slots)} foreign slots"
        return (
            f"not the truth: responses {len(self.false_recipients)} false, {len(self.missed_recipients)} missed; "
            f"slots {len(self.false_slots)} false, {len(self.missed_slots)} missed"
        )


def true_recipients(truth: Mapping[str, Any]) -> frozenset[str]:
    """Digests of the requests whose response read bytes that were neither theirs nor shared with them."""
    return frozenset(response["rid"] for response in truth["responses"] if response["reads"])


def true_slots(truth: Mapping[str, Any]) -> frozenset[ForeignSlot]:
    """Every slot that held another request's bytes when it was read, or nobody's."""
    return frozenset(
        ForeignSlot(response["rid"], read["page"], slot, read["owner_rid"] or NOBODY)
        for response in truth["responses"]
        for read in response["reads"]
        for slot in range(read["slot_start"], read["slot_end"])
    )


def compare(
    truth: Mapping[str, Any],
    foreign_ranges: Iterable[Mapping[str, Any]],
    responses: Iterable[Mapping[str, Any]],
) -> Comparison:
    """Compare with the truth what the views `foreign_ranges` and `responses` of the store say, rows as dicts.

    A response counts as affected if its verdict is `violation`. Raises KeyError for a range of an unknown response.
    """
    rows = list(responses)
    rid_of = {row["response_uid"]: str(row["rid"]) for row in rows}
    said = frozenset(str(row["rid"]) for row in rows if row["verdict"] == VIOLATION)
    slots = frozenset(
        ForeignSlot(rid_of[row["response_uid"]], int(row["page"]), slot, _donor(row))
        for row in foreign_ranges
        for slot in range(int(row["slot_start"]), int(row["slot_end"]))
    )
    wanted, wanted_slots = true_recipients(truth), true_slots(truth)
    return Comparison(wanted, wanted_slots, said - wanted, wanted - said, slots - wanted_slots, wanted_slots - slots)


def _donor(row: Mapping[str, Any]) -> str:
    return NOBODY if row.get("scope") == "no_writer" else str(row["donor_rid"])
