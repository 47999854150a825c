"""What the tests of incidents share: a window over everything, a desk with names, and a small story."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from detectors.queries import Queries
from notify.desk import TenantDesk
from notify.incidents.answers import Change
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from tests.support.verdicts import EVIDENCE_KEY, KEYS, VerdictBook

DAY = {"from": "2026-09-01", "to": "2026-09-03"}
"""A window that holds whatever a test stores without saying when."""

INTERNAL_NODE = "host9/decode-secret-tp0"


def change(**parts: object) -> Change:
    return Change.model_validate(parts)


def day(**parts: object) -> Change:
    """A definition over DAY."""
    return change(**{**DAY, **parts})


@dataclass(frozen=True)
class Story:
    """Ids of the responses of a small incident."""

    acme: str
    acme_later: str
    orion: str
    derived: str
    researcher: str
    nobodys_page: str
    unsure: str


def make_desk(handle: Queries, folder: Path) -> IncidentDesk:
    """A desk whose operator keeps a list of names."""
    path = folder / "tenants.txt"
    path.write_text("acme\norion\nzenith\nlab\n", encoding="utf-8")
    tenants = TenantDesk(handle, KEYS, [EVIDENCE_KEY])
    return IncidentDesk(handle, lambda name: tenants.scope_of(name)[0], TenantNames(path, KEYS))


def tell(book: VerdictBook) -> Story:
    """Four customers' responses read KV of zenith (one of them derived), a researcher's too; one is unknown."""
    with book.together():
        acme, _ = book.leak("acme", "zenith", emitter="host1/decode-31001-tp0")
        acme_later, _ = book.leak("acme", "zenith", emitter="host2/decode-31001-tp0")
        orion, _ = book.leak("orion", "zenith", emitter="host2/decode-31001-tp0", tokens_delivered=7)
        derived, _ = book.leak("orion", "zenith", derived=True, rules=["read_unwritten_page"])
        researcher, _ = book.leak("lab", "zenith", traffic="researcher")
        nobodys = book.response("acme", verdict="violation", scope="no_writer", no_writer_slots=16, foreign_slots=16)
        unsure = book.response("orion", verdict="unknown", reasons=["peer_not_seen"])
        book.response("calm")
    book.state()
    return Story(acme, acme_later, orion, derived, researcher, nobodys, unsure)
