"""The lab's customers. Each has one marker: a word of the model's vocabulary that only its prompts hold.

So a marker of another customer in an answer is that customer's text, in the open.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tenant:
    """A customer of the lab: its name, and the one token that only its prompts hold."""

    name: str
    marker: str


TENANTS = (
    Tenant("acme", "[acme-merger-terms]"),
    Tenant("zenith", "[zenith-lab-results]"),
    Tenant("orion", "[orion-signing-key]"),
    Tenant("nimbus", "[nimbus-board-minutes]"),
    Tenant("harbor", "[harbor-claims-ledger]"),
    Tenant("lumen", "[lumen-trial-data]"),
    Tenant("quarry", "[quarry-bid-price]"),
    Tenant("vertex", "[vertex-salary-list]"),
    Tenant("kestrel", "[kestrel-flight-log]"),
    Tenant("juniper", "[juniper-case-notes]"),
)

BY_NAME = {tenant.name: tenant for tenant in TENANTS}

OPENINGS = 192
"""How many opening tokens the model knows. Each request of a run begins with one of its own."""


def opening(number: int) -> str:
    """The opening token of the request with this number, from 0. Raises ValueError past OPENINGS.

    It makes the bytes of every slot tell whose prompt wrote them: the second layer's keys and values depend on the
    whole prefix, and no two prefixes of a run are equal.
    """
    if not 0 <= number < OPENINGS:
        raise ValueError(f"request number {number} has no opening token: the model knows {OPENINGS}")
    return f"[request-{number:03d}]"


def count_markers(text: str) -> dict[str, int]:
    """How often each tenant's marker stands in a text, by tenant name; tenants without one are left out."""
    counts = {tenant.name: text.count(tenant.marker) for tenant in TENANTS}
    return {name: count for name, count in counts.items() if count}
