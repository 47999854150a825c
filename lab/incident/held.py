"""The answer held against the truth. Which responses are affected, the content of the simulated pools says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from detectors.queries import Queries
from lab.fleet.simulate import Fleet
from lab.fleet.spec import FleetSpec
from lab.fleet.workload import TRAFFIC
from lab.incident.scenario import LEFT_OUT
from notify.incidents.answers import IncidentAffectedAnswer

CUSTOMER = "customer"


@dataclass(frozen=True, slots=True)
class Truth:
    """Ids of the responses that read, themselves, KV of another tenant: by traffic label, and how many by tenant.

    KV of internal tests is the operator's own, as `notify` has it (docs/api-affected.md#scopes): who read no other is
    not among them.
    """

    by_label: Mapping[str, frozenset[str]]
    of_customers: Mapping[str, int]  # by pseudonym
    in_any_way: frozenset[str]  # what read foreign KV at all, by way of a cache too
    prefills: Mapping[str, str]  # uid of the prefill leg of each of them

    @classmethod
    def of(cls, fleet: Fleet) -> Truth:
        """Of what ran on a fleet."""
        work = fleet.workload
        found: dict[str, set[str]] = {label: set() for label in TRAFFIC}
        tenants: Counter[str] = Counter()
        prefills: dict[str, str] = {}
        for index, said in fleet.truth.affected.items():
            mine, uid = int(work.tenant[index]), said.legs[-1].hex()
            prefills[uid] = said.prefill.hex()
            others = [owner for owner in said.owners if owner >= 0 and int(work.tenant[owner]) != mine]
            if all(TRAFFIC[int(work.traffic[owner])] == "internal" for owner in others):
                continue
            label = TRAFFIC[int(work.traffic[index])]
            found[label].add(uid)
            tenants[work.pseudonyms[mine].hex()] += label == CUSTOMER
        by_label = {label: frozenset(uids) for label, uids in found.items()}
        return cls(by_label, +tenants, frozenset(prefills), prefills)


@dataclass(frozen=True, slots=True)
class Result:
    """Both answers beside the truth. `everybodys` leaves nobody's traffic out."""

    answer: IncidentAffectedAnswer
    everybodys: IncidentAffectedAnswer
    truth: Truth
    spec: FleetSpec  # of the fleet that was affected
    min_input_tokens: int
    requests: int

    @property
    def affected(self) -> frozenset[str]:
        """Ids of the responses that are named, derived ones apart."""
        return frozenset(row.response_id for row in self.answer.responses if not row.derived)

    @property
    def excluded(self) -> dict[str, frozenset[str]]:
        """The same of the traffic that was left out, by label."""
        rows = [row for row in self.everybodys.responses if not row.derived]
        return {label: frozenset(row.response_id for row in rows if row.traffic == label) for label in LEFT_OUT}

    @property
    def right(self) -> bool:
        """Whether exactly the truth is named, split by tenant and by label as it is, and nothing of a neighbour."""
        named = {row.tenant.pseudonym: row.affected for row in self.answer.by_tenant if row.affected}
        return (
            self.affected == self.truth.by_label[CUSTOMER]
            and named == self.truth.of_customers
            and self.excluded == {label: self.truth.by_label[label] for label in LEFT_OUT}
            and {row.response_id for row in self.everybodys.responses} <= self.truth.in_any_way
            and {row.model for row in self.everybodys.responses} <= {self.spec.model}
            and self.min_input_tokens > self.spec.prefill_pages * self.spec.page_size
        )

    def figures(self) -> dict[str, object]:
        """What `make incident` prints."""
        true, counts = self.truth.by_label[CUSTOMER], self.answer.counts
        return {
            "affected": len(self.affected),
            "truth": len(true),
            "false": len(self.affected - true),
            "missed": len(true - self.affected),
            "unknown": counts.unknown + counts.pending,
            "derived": self.answer.derived,
            "min_input_tokens": self.min_input_tokens,
            "excluded": {label: len(uids) for label, uids in self.excluded.items()},
            "requests": self.requests,
        }


def shortest_prompt(store: Queries, answer: IncidentAffectedAnswer) -> int:
    """Fewest input tokens that the evidence has of a response that is named; 0 where it does not say of one."""
    uids = [row.response_id for row in answer.responses if not row.derived]
    (row,) = store.rows(
        "SELECT min(coalesce(input_tokens, 0)) AS tokens FROM responses WHERE response_uid IN {uids:Array(String)}",
        {"uids": uids},
    )
    tokens: int = row["tokens"]
    return tokens
