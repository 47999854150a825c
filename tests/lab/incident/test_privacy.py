"""What a customer may be told of the incident holds nothing of another tenant, in whatever form it is asked for.

Every other tenant's name, pseudonym, ids, request digests, nodes, pages and times are looked for in what is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from engine_hooks.identity import pseudonym
from lab.fleet.workload import PSEUDONYM_KEY, tenant_name
from lab.incident.run import NAME, NAMES_FILE
from lab.service import LAB_KEYS, ServiceProcess
from tests.notify.asking import Notify, asking
from tests.support.incidents import store_incident

TENANTS = {pseudonym(PSEUDONYM_KEY, tenant_name(number)): tenant_name(number) for number in range(8)}
FORMS = ("table", "json", "csv", "ndjson")
PAGES = 100_000
ASKED = ("tenant-0", "tenant-1", "tenant-2", "tenant-7")


@dataclass(frozen=True)
class World:
    """The running service, and each fact of each leg in it."""

    service: ServiceProcess
    facts: list[dict[str, Any]]

    @property
    def last_second(self) -> str:
        """When the nodes stop: with the last request. That is the watermark too, which every answer has."""
        return str(max(fact["second"] for fact in self.facts))

    def texts(self, tenant: str) -> set[str]:
        """What tells of this tenant alone, or of where its requests ran."""
        found = {tenant}
        for fact in self.facts:
            if TENANTS[fact["tenant"]] == tenant:
                found |= {fact["tenant"], fact["uid"], fact["rid"], fact["emitter"], fact["boot"], fact["second"]}
                found |= {fact["emitter"].partition("/")[0]}
                if fact["received"]:
                    found |= {
                        str(page)
                        for start, length in zip(fact["starts"], fact["lengths"], strict=True)
                        for page in range(start, start + length)
                        if page >= PAGES  # the neighbour's are numbers like any other
                    }
        return {text[:12] if len(text) == 32 else text for text in found - {""}}  # a table has them cut


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data = tmp_path_factory.mktemp("incident") / "data"
    facts = store_incident(data)
    settings = LAB_KEYS | {"PAGEWITNESS_TENANTS_FILE": str(data / NAMES_FILE)}
    with ServiceProcess(data, detect_every=600, settings=settings) as service:
        yield World(service, facts)


@pytest.fixture
def notify(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Notify:
    return asking(world.service, monkeypatch, capsys)


def ask(notify: Notify, tenant: str, form: str, role: str = "recipient") -> str:
    extra = ["--include", "unknown"] if role == "recipient" else []
    done = notify("affected", "--tenant", tenant, "--role", role, "--incident", NAME, "-o", form, *extra, columns=200)
    assert done.code in (0, 3, 4), done.err
    return done.out + done.err


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tenant", ASKED)
@pytest.mark.parametrize("role", ["recipient", "donor"])
def test_nothing_of_another_tenant_is_printed(world: World, notify: Notify, role: str, tenant: str, form: str) -> None:
    shown = ask(notify, tenant, form, role)
    own = {text for text in world.texts(tenant) if len(text) in (8, 12)} | {tenant, world.last_second}
    others = set().union(*(world.texts(name) for name in TENANTS.values() if name != tenant)) - own
    assert len(others) > 400
    assert not {text for text in others if text in shown}


@pytest.mark.parametrize("form", FORMS)
def test_the_search_would_find_what_is_there(world: World, notify: Notify, form: str) -> None:
    own = world.texts("tenant-0")
    shown = ask(notify, "tenant-0", form)
    assert any(len(text) == 12 and text in shown for text in own)
    assert any(len(text) == 8 and text in shown for text in own)


def test_the_operators_view_of_the_same_has_them_all(notify: Notify) -> None:
    done = notify("incident", "affected", NAME, "-o", "json")
    assert sum(f'"{name}"' in done.out for name in TENANTS.values()) > 3
