"""A fact that may belong to no leg carries everything that says whose it is, or nothing of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collector.store import Store
from engine_hooks.conventions import LEG_FIELDS, SPANS, TENANT_KEY, Span
from tests.collector.conftest import Rows
from tests.support.otlp import TENANT, UID, Fact, export

Made = Callable[..., Fact]
Rejects = Callable[[], dict[int | None, str]]

LEGLESS = [span for span in SPANS if span.legless]
DELIVERY = "pagewitness.delivery"


@pytest.mark.parametrize("span", LEGLESS, ids=lambda span: span.name)
def test_it_may_be_a_fact_of_a_leg(span: Span, store: Store, made: Made, facts: Rows) -> None:
    assert store.insert_otlp(export(made(span.name, ordinal=4))).stored == 1
    assert facts("uid, leg_ordinal, tenant_id, traffic") == [
        {"uid": UID, "leg_ordinal": 4, "tenant_id": TENANT, "traffic": "customer"}
    ]


@pytest.mark.parametrize("span", LEGLESS, ids=lambda span: span.name)
def test_it_may_belong_to_no_leg(span: Span, store: Store, made: Made, facts: Rows) -> None:
    assert store.insert_otlp(export(made(span.name, uid=""))).stored == 1
    assert facts("leg_ordinal, tenant_id, tenant_key, traffic") == [
        {"leg_ordinal": None, "tenant_id": "", "tenant_key": "", "traffic": ""}
    ]


@pytest.mark.parametrize("span", LEGLESS, ids=lambda span: span.name)
@pytest.mark.parametrize("name", [one.attribute.name for one in LEG_FIELDS if one.required])
def test_it_may_not_belong_to_half_a_leg(name: str, span: Span, store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(export(made(span.name, without=[name]))).stored == 0
    assert rejects() == {1: f"missing_attribute:{name}"}


@pytest.mark.parametrize("span", LEGLESS, ids=lambda span: span.name)
def test_it_may_not_name_a_key_without_a_tenant(span: Span, store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(export(made(span.name, uid="", extra={TENANT_KEY.name: "k1"}))).stored == 0
    assert rejects() == {1: "missing_attribute:pagewitness.leg.ordinal"}


def test_a_delivery_has_a_tenant_and_no_leg(store: Store, made: Made, facts: Rows) -> None:
    assert store.insert_otlp(export(made(DELIVERY))).stored == 1
    assert facts("leg_ordinal, tenant_id, tenant_key, traffic") == [
        {"leg_ordinal": None, "tenant_id": TENANT, "tenant_key": "k1", "traffic": "customer"}
    ]


@pytest.mark.parametrize("tenant", ["acme", "", "AA" * 16])
def test_the_tenant_of_a_delivery_is_a_pseudonym_too(tenant: str, store: Store, made: Made, rejects: Rejects) -> None:
    assert store.insert_otlp(export(made(DELIVERY, extra={"tenant.id": tenant}))).stored == 0
    assert rejects() == {1: "bad_value:tenant.id"}
