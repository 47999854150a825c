"""What holds of every capture, asserted from truth and traffic alone: a capture that shows less is not written.

Each check returns what is wrong, one sentence each; nothing here has seen a fact. What one story is for, its own module
in `stories` asserts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.engine.traffic import Outcome
from lab.engine.truth import ResponseTruth, Truth
from lab.engine.truth_records import Records


@dataclass(frozen=True, slots=True)
class Run:
    """All that the checks look at."""

    records: Records
    truth: Truth
    outcomes: tuple[Outcome, ...]

    @property
    def oversized(self) -> tuple[Outcome, ...]:
        """The oversized prompts, in order."""
        return tuple(outcome for outcome in self.outcomes if outcome.oversized)

    def tenant(self, rid: str) -> str:
        """Tenant of a request, or of the owner of a slot: empty for nobody."""
        return next(outcome.tenant for outcome in self.outcomes if outcome.rid == rid) if rid else ""

    def response(self, rid: str) -> ResponseTruth | None:
        """The truth of a request's response, if it read anything."""
        return next((response for response in self.truth.responses if response.rid == rid), None)

    def affected(self) -> tuple[ResponseTruth, ...]:
        """Responses that read bytes which were neither theirs nor shared with them."""
        return tuple(response for response in self.truth.responses if response.foreign)

    def written_by_decode(self) -> dict[str, dict[int, int]]:
        """Per request, the positions that decode's forwards wrote, and their slots."""
        written: dict[str, dict[int, int]] = {}
        for write in self.records.writes:
            if write.role == "decode":
                written.setdefault(write.rid, {}).update(
                    zip(range(write.start, write.start + len(write.slots)), write.slots, strict=True)
                )
        return written


Check = Callable[[Run], list[str]]


def faults(run: Run, special: Iterable[Check]) -> list[str]:
    """Everything that keeps this run from being a capture, by the common checks and these; empty when all is well."""
    return [fault for check in (*COMMON_CHECKS, *special) for fault in check(run)]


def every_slot_has_one_owner(run: Run) -> list[str]:
    """No ambiguity, and a truth for every response that came."""
    found = [f"no one owner: {ambiguity}" for ambiguity in run.truth.ambiguities[:10]]
    found += [
        f"{o.rid} was answered, but no read was seen"
        for o in run.outcomes
        if o.status == 200 and not o.did and not run.response(o.rid)
    ]
    return found


def ordinary_requests_are_answered(run: Run) -> list[str]:
    """Every ordinary request got its whole answer, with its own marker and no other."""
    return [
        f"ordinary {o.rid}: prefill {o.prefill_status}, decode {o.status}, own markers {o.own}, others {o.echoed}"
        for o in run.outcomes
        if o.ordinary and ((o.prefill_status, o.status) != (200, 200) or o.echoed or bool(o.own) != o.marked)
    ]


def ordinary_responses_are_clean(run: Run) -> list[str]:
    """No ordinary response read foreign bytes."""
    ordinary = {outcome.rid for outcome in run.outcomes if outcome.ordinary}
    return [
        f"ordinary response {r.rid} read {len(r.foreign)} foreign slots" for r in run.affected() if r.rid in ordinary
    ]


def nothing_is_affected(run: Run) -> list[str]:
    """No response read foreign bytes."""
    return [f"response {response.rid} read {len(response.foreign)} foreign slots" for response in run.affected()]


COMMON_CHECKS: tuple[Check, ...] = (
    every_slot_has_one_owner,
    ordinary_requests_are_answered,
    ordinary_responses_are_clean,
)
