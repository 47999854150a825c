"""Between whom foreign KV passed: the scope of a range, and of a response."""

from __future__ import annotations

from collections.abc import Sequence

from detectors.donors import SlotOwner
from engine_hooks.conventions import UNATTRIBUTED

SCOPES: tuple[str, ...] = ("cross_tenant", "unattributed", "internal_donor", "same_tenant", "no_writer")
"""Scopes, gravest first: a response has the gravest of its ranges."""

INTERNAL_TRAFFIC = ("internal", "canary")


def range_scope(tenant: str, tenant_key: str, owner: SlotOwner) -> str:
    """Scope of slots that a response of this tenant read and `owner` wrote.

    A tenant that nobody vouched for may be any tenant, the recipient's own included: that is ``unattributed``, unless
    the *donor* is known and the recipient is not, because then the donor's data did leave its known owner.
    """
    if owner.leg is None:
        return owner.verdict
    donor = owner.leg
    if donor.tenant == UNATTRIBUTED:
        return "unattributed"
    if (donor.tenant, donor.tenant_key) == (tenant, tenant_key):
        return "same_tenant"
    return "internal_donor" if donor.traffic in INTERNAL_TRAFFIC else "cross_tenant"


def response_scope(scopes: Sequence[str]) -> str:
    """The gravest scope, or "" if there is none."""
    return min(scopes, key=SCOPES.index, default="")
