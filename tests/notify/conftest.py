"""A real store with what detection would have stored in it, for questions asked in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.store import Handle, Store
from notify.desk import TenantDesk
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.operator_view import OperatorView
from tests.notify.incident_fixtures import make_desk
from tests.support.otlp import Fact, export
from tests.support.stores import fresh_store
from tests.support.verdicts import EVIDENCE_KEY, KEYS, VerdictBook

VERSIONED = (
    "response_versions",
    "finding_versions",
    "foreign_range_versions",
    "newest_responses",
    "newest_findings",
    "donated_range_versions",
    "tenants_heard",
    "detection_runs",
    "detection_ends",
    "incident_revisions",
    "evidence",
    "boot_activity",
    "boot_words",
    "boot_clocks",
    "boot_agents",
    "engine_counts",
)


@pytest.fixture(scope="session")
def opened() -> Iterator[tuple[Store, Handle]]:
    with fresh_store() as store:
        yield store, store.handle()


@pytest.fixture
def handle(opened: tuple[Store, Handle]) -> Handle:
    """The store, with nothing in it."""
    for table in VERSIONED:
        opened[1].command(f"TRUNCATE TABLE {table}")
    return opened[1]


@pytest.fixture
def post(opened: tuple[Store, Handle], handle: Handle) -> Callable[..., None]:
    """Stores facts, as the receiver would."""

    def insert(*facts: Fact) -> None:
        assert not opened[0].insert_otlp(export(*facts)).rejected

    return insert


@pytest.fixture
def book(handle: Handle) -> VerdictBook:
    return VerdictBook(handle)


@pytest.fixture
def desk(handle: Handle) -> TenantDesk:
    return TenantDesk(handle, KEYS, [EVIDENCE_KEY])


@pytest.fixture
def operator(handle: Handle) -> OperatorView:
    return OperatorView(OperatorStore(handle), TenantNames(None, KEYS))


@pytest.fixture
def incidents(handle: Handle, tmp_path: Path) -> IncidentDesk:
    """The desk for incidents of an operator who keeps a list of names."""
    return make_desk(handle, tmp_path)
