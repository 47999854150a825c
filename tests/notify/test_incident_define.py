"""Defining an incident: what is stored, how it is revised, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from detectors.queries import Queries
from notify.errors import UnknownError, UsageError
from notify.incidents.incident_desk import IncidentDesk
from tests.notify.incident_fixtures import change, day, tell
from tests.support.verdicts import KEYS, RULE_SET, START, VerdictBook


def revisions(handle: Queries) -> int:
    return int(handle.rows("SELECT count() AS n FROM incident_revisions")[0]["n"])


def test_an_incident_is_stored_with_every_part_of_its_definition(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    incidents.define(
        "sept-1",
        day(
            models=["tiny"],
            rules=["read_unwritten_page", "transfer_short.stalled"],
            effects=["exposure_risk", "contamination"],
            scopes=["no_writer", "cross_tenant"],
            exclude_traffic=["internal", "canary"],
            exclude_tenants=["lab"],
            nodes=["host1/decode-31001", "host2/decode-31001-tp0"],
            exclude_nodes=["host2/decode-31001-tp0"],
            note="the oversized prompt",
        ),
    )
    shown = incidents.show("sept-1")
    assert (shown.name, shown.revision, shown.note) == ("sept-1", 1, "the oversized prompt")
    assert (shown.window.from_, shown.window.to) == ("2026-09-01T00:00:00.000Z", "2026-09-03T00:00:00.000Z")
    assert shown.models == ["tiny"]
    assert shown.rules == ["read_unwritten_page", "transfer_short.stalled"]
    assert shown.effects == ["contamination", "exposure_risk"]
    assert shown.scopes == ["cross_tenant", "no_writer"]
    assert shown.excluded_traffic == ["internal", "canary"]
    assert [one.name for one in shown.excluded_tenants] == ["lab"]
    assert shown.nodes == ["host1/decode-31001", "host2/decode-31001-tp0"]
    assert shown.excluded_nodes == ["host2/decode-31001-tp0"]


def test_what_is_not_said_is_contamination_of_customers_lists_on_every_node(
    book: VerdictBook, incidents: IncidentDesk
) -> None:
    tell(book)
    shown = incidents.define("plain", day()).incident
    assert (shown.effects, shown.scopes) == (["contamination"], ["cross_tenant", "unattributed"])
    assert shown.models == shown.rules == shown.nodes == shown.excluded_traffic == shown.excluded_nodes == []
    assert shown.excluded_tenants == []


def test_it_is_frozen_by_the_end_of_the_last_pass(book: VerdictBook, handle: Queries, incidents: IncidentDesk) -> None:
    tell(book)
    book.response("acme")  # a pass that is under way has written this
    frozen = incidents.define("plain", day()).incident.as_of
    (newest,) = handle.rows("SELECT max(version) AS version FROM response_versions")
    assert frozen.version == newest["version"] - 1
    assert (frozen.rule_set, frozen.contract) == (RULE_SET, 2)
    assert frozen.watermark == "2026-09-01T11:00:00.000Z"
    assert frozen.evidence_starts == START.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert len(frozen.rules_digest) == 16


def test_tenants_are_stored_as_pseudonyms_under_every_key(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk
) -> None:
    tell(book)
    incidents.define("plain", day(exclude_tenants=["orion"]))
    (row,) = handle.rows("SELECT * FROM incident_revisions")
    assert sorted(row["excluded_tenants"]) == sorted((key.id, book.identity("orion", key)[0]) for key in KEYS)
    assert "orion" not in str(row)


def test_a_name_that_exists_is_refused_with_how_to_revise_it(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk
) -> None:
    tell(book)
    incidents.define("sept-1", day())
    with pytest.raises(UsageError, match=r"incident 'sept-1' exists: revision 1.*--as-of now to make revision 2"):
        incidents.define("sept-1", day())
    assert revisions(handle) == 1


def test_as_of_now_makes_a_revision_that_keeps_what_is_not_changed(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk
) -> None:
    tell(book)
    first = incidents.define("sept-1", day(exclude_tenants=["lab"], note="first")).incident
    book.leak("acme", "zenith")
    book.state()
    done = incidents.define("sept-1", change(as_of="now", exclude_traffic=["canary"]))
    assert done.previous == first
    assert (done.incident.revision, done.incident.note) == (2, "first")
    assert [one.name for one in done.incident.excluded_tenants] == ["lab"]
    assert done.incident.excluded_traffic == ["canary"]
    assert done.incident.as_of.version > first.as_of.version
    assert revisions(handle) == 2
    assert incidents.show("sept-1").revision == 2
    assert incidents.show("sept-1", 1) == first


def test_an_empty_list_lets_everything_through_again(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    incidents.define("sept-1", day(exclude_tenants=["lab"], rules=["read_unwritten_page"]))
    shown = incidents.define("sept-1", change(as_of="now", exclude_tenants=[], rules=[])).incident
    assert (shown.excluded_tenants, shown.rules) == ([], [])


def test_the_list_holds_the_newest_revision_of_each_by_name(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    assert incidents.all().incidents == []
    for name in ("zulu", "alpha"):
        incidents.define(name, day())
    incidents.define("alpha", change(as_of="now"))
    assert [(one.name, one.revision) for one in incidents.all().incidents] == [("alpha", 2), ("zulu", 1)]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"from": "2026-09-03", "to": "2026-09-01"}, "the window is empty"),
        ({"from": "2026-09-01", "to": "2026-09-01"}, "the window is empty"),
        ({"from": "soon"}, "'soon' is not a time"),
        ({"from": None}, "needs a window"),
        ({"to": None}, "needs a window"),
        ({"rules": ["read_unwriten_page"]}, r"unknown rule 'read_unwriten_page': known are .*read_unwritten_page"),
        ({"rules": ["transfer_short.never"]}, r"unknown rule .*known are .*transfer_short.stalled"),
        ({"rules": ["transfer_short"]}, r"never has the effect contamination.*--effect exposure_risk"),
        ({"effects": ["leak"]}, "unknown effect 'leak': known are contamination, exposure_risk, posture"),
        ({"scopes": ["everyone"]}, r"unknown scope 'everyone': known are cross_tenant, internal_donor"),
        ({"exclude_traffic": ["tests"]}, "unknown traffic label 'tests': known are canary, customer, internal"),
        ({"exclude_tenants": ["acmee"]}, "unknown tenant 'acmee'"),
        ({"exclude_tenants": ["unattributed"]}, "nobody's name"),
        ({"models": ["tinny"]}, "unknown model 'tinny': known are tiny"),
        ({"nodes": ["host3"]}, r"unknown node 'host3': known are host1/decode-31001, host1/decode-31001-tp0"),
        ({"exclude_nodes": ["host3"]}, "unknown node 'host3'"),
        ({"note": "x" * 2001}, "a note of 2001 characters is too long"),
    ],
    ids=str,
)
def test_a_definition_that_makes_no_sense_is_refused_and_nothing_is_written(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk, parts: dict[str, Any], said: str
) -> None:
    tell(book)
    with pytest.raises(UsageError, match=said):
        incidents.define("sept-1", day(**parts))
    assert revisions(handle) == 0


@pytest.mark.parametrize("name", ["", "Sept", "two words", "-x", "../up", "a" * 65, "näme", "x\ny"])
def test_a_bad_name_is_refused(book: VerdictBook, handle: Queries, incidents: IncidentDesk, name: str) -> None:
    tell(book)
    with pytest.raises(UsageError, match="is no name for an incident"):
        incidents.define(name, day())
    assert revisions(handle) == 0


def test_before_detection_ran_there_is_nothing_to_freeze(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk
) -> None:
    book.response("acme")
    with pytest.raises(UsageError, match="detection has not run yet"):
        incidents.define("sept-1", day())
    assert revisions(handle) == 0


def test_what_was_never_defined_is_unknown(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    incidents.define("sept-1", day())
    with pytest.raises(UnknownError, match=r"unknown incident 'sept-2': known incidents are sept-1"):
        incidents.show("sept-2")
    with pytest.raises(UnknownError, match="unknown revision 7 of incident 'sept-1'"):
        incidents.affected("sept-1", 7)
