"""Between whom foreign KV passed."""

from __future__ import annotations

import pytest

from detectors.donors import SlotOwner
from detectors.scopes import range_scope, response_scope
from engine_hooks.conventions import UNATTRIBUTED
from tests.support.legs import leg

ACME, ZENITH = "aa" * 16, "bb" * 16


def owned(tenant: str, traffic: str = "customer", key: str = "k1") -> SlotOwner:
    return SlotOwner("owned", "stale_page", leg("d", tenant=tenant, tenant_key=key, traffic=traffic))


@pytest.mark.parametrize(
    ("recipient", "owner", "scope"),
    [
        (ACME, owned(ZENITH), "cross_tenant"),
        (ACME, owned(ACME), "same_tenant"),
        (ACME, owned(ZENITH, "canary"), "internal_donor"),
        (ACME, owned(UNATTRIBUTED), "unattributed"),
        (UNATTRIBUTED, owned(ZENITH), "cross_tenant"),
        (UNATTRIBUTED, owned(UNATTRIBUTED), "unattributed"),
        (ACME, SlotOwner("no_writer", "stale_page"), "no_writer"),
        (ACME, SlotOwner("unattributed", "stale_page"), "unattributed"),
    ],
)
def test_the_scope_of_a_range(recipient: str, owner: SlotOwner, scope: str) -> None:
    assert range_scope(recipient, "k1", owner) == scope


def test_pseudonyms_under_two_keys_are_never_taken_for_one_tenant() -> None:
    assert range_scope(ACME, "k1", owned(ACME, key="k2")) == "cross_tenant"


def test_a_response_has_the_gravest_scope_of_its_ranges() -> None:
    assert response_scope(["no_writer", "same_tenant", "cross_tenant"]) == "cross_tenant"
    assert response_scope(["no_writer", "unattributed"]) == "unattributed"
    assert response_scope([]) == ""
