"""Previewing a change of an incident: what it would add and remove, and who stays unknown. Nothing is written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from detectors.queries import Queries
from notify.errors import UnknownError, UsageError
from notify.exit_codes import ExitCode
from notify.incidents.answers import PreviewAnswer
from notify.incidents.incident_desk import IncidentDesk
from tests.notify.incident_fixtures import change, day, tell
from tests.support.verdicts import START, VerdictBook


def added(answer: PreviewAnswer) -> set[str]:
    return {one.response_id for one in answer.added}


def removed(answer: PreviewAnswer) -> set[str]:
    return {one.response_id for one in answer.removed}


def test_nothing_changed_adds_and_removes_nothing(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    defined = incidents.define("sept-1", day())
    answer = incidents.preview("sept-1", change())
    assert (answer.changed, answer.added, answer.removed) == ([], [], [])
    assert (answer.before, answer.after) == (5, 5)
    assert answer.digest == defined.incident.digest


def test_an_exclusion_removes_and_says_whose(book: VerdictBook, incidents: IncidentDesk) -> None:
    story = tell(book)
    incidents.define("sept-1", day())
    answer = incidents.preview("sept-1", change(exclude_traffic=["researcher"], exclude_tenants=["orion"]))
    assert sorted(answer.changed) == ["excluded_tenants", "excluded_traffic"]
    assert (added(answer), removed(answer)) == (set(), {story.researcher, story.orion, story.derived})
    assert (answer.before, answer.after) == (5, 2)
    assert sorted(one.tenant.name or "" for one in answer.removed) == ["lab", "orion", "orion"]


def test_a_wider_window_adds_and_a_narrower_one_removes(book: VerdictBook, incidents: IncidentDesk) -> None:
    early, _ = book.leak(started=START)
    late, _ = book.leak(started=START + timedelta(hours=3))
    book.state()
    incidents.define("sept-1", day(to="2026-09-01T12:00"))
    assert added(incidents.preview("sept-1", change(to="2026-09-02"))) == {late}
    moved = incidents.preview("sept-1", change(**{"from": "2026-09-01T12:00", "to": "2026-09-02"}))
    assert (added(moved), removed(moved)) == ({late}, {early})


def test_another_rule_or_scope_adds_what_it_names(book: VerdictBook, incidents: IncidentDesk) -> None:
    story = tell(book)
    incidents.define("sept-1", day())
    assert added(incidents.preview("sept-1", change(scopes=["cross_tenant", "no_writer"]))) == {story.nobodys_page}
    none = incidents.preview("sept-1", change(rules=["transfer_short"], effects=["exposure_risk"]))
    assert (len(none.removed), none.after) == (5, 0)
    assert ("effect", 6) in [(one.by, one.violations) for one in none.left_out]


def test_it_says_who_stays_unknown_and_why(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    book.response("acme", verdict="unknown", reasons=["peer_not_seen", "rule_blind"])
    book.response("acme", verdict="pending", reasons=["decode_leg_running"])
    book.state()
    incidents.define("sept-1", day())
    answer = incidents.preview("sept-1", change(exclude_traffic=["researcher"]))
    assert (answer.counts.unknown, answer.counts.pending) == (2, 1)
    assert answer.reasons == {"peer_not_seen": 2, "decode_leg_running": 1, "rule_blind": 1}
    assert [(one.tenant.name, one.unknown, one.pending) for one in answer.unsure] == [("acme", 1, 1), ("orion", 1, 0)]
    assert answer.unsure[1].reasons == {"peer_not_seen": 1}


def test_it_sees_what_was_frozen_unless_it_is_asked_to_freeze_anew(book: VerdictBook, incidents: IncidentDesk) -> None:
    story = tell(book)
    incidents.define("sept-1", day())
    book.response("acme", uid=story.acme)  # clean after all
    late, _ = book.leak("calm", "zenith", started=START)
    book.state()
    assert not incidents.preview("sept-1", change()).added
    answer = incidents.preview("sept-1", change(as_of="now"))
    assert answer.changed == ["as_of"]
    assert (added(answer), removed(answer)) == ({late}, {story.acme})
    assert incidents.define("sept-1", change(as_of="now")).affected == answer.after


def test_nothing_is_written(book: VerdictBook, handle: Queries, incidents: IncidentDesk) -> None:
    tell(book)
    incidents.define("sept-1", day())
    before = handle.rows("SELECT * FROM incident_revisions")
    incidents.preview("sept-1", change(as_of="now", exclude_tenants=["orion"], note="no"))
    assert handle.rows("SELECT * FROM incident_revisions") == before


def test_its_exit_code_is_that_of_the_changed_definition(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    incidents.define("sept-1", day())
    assert incidents.preview("sept-1", change()).exit_code == ExitCode.FOUND
    assert incidents.preview("sept-1", change(scopes=["same_tenant"])).exit_code == ExitCode.INCOMPLETE


@pytest.mark.parametrize(
    "parts", [{"to": "2026-08-01"}, {"rules": ["no_such_rule"]}, {"exclude_tenants": ["nobody-of-that-name"]}], ids=str
)
def test_a_change_that_makes_no_sense_is_refused(
    book: VerdictBook, incidents: IncidentDesk, parts: dict[str, Any]
) -> None:
    tell(book)
    incidents.define("sept-1", day())
    with pytest.raises(UsageError):
        incidents.preview("sept-1", change(**parts))


def test_an_unknown_incident_has_no_preview(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    with pytest.raises(UnknownError):
        incidents.preview("sept-1", change())
