"""What an incident comes to: totals, what is left out, coverage, and a digest that stands."""

from __future__ import annotations

import json
from datetime import timedelta
from hashlib import sha256

import pytest

from detectors.queries import Queries
from notify.answers import Counts
from notify.exit_codes import ExitCode
from notify.incidents.answers import IncidentAffectedAnswer
from notify.incidents.incident_desk import IncidentDesk
from tests.notify.incident_fixtures import DAY, change, day, tell
from tests.support.verdicts import KEYS, START, VerdictBook

OLD = KEYS[1]


def asked(incidents: IncidentDesk, **parts: object) -> IncidentAffectedAnswer:
    """The answer of an incident that is defined for it."""
    name = f"asked-{len(incidents.all().incidents)}"
    incidents.define(name, day(**parts))
    return incidents.affected(name)


def ids(answer: IncidentAffectedAnswer) -> set[str]:
    return {row.response_id for row in answer.responses}


def test_affected_responses_are_listed_with_derived_ones_counted_apart(
    book: VerdictBook, incidents: IncidentDesk
) -> None:
    story = tell(book)
    answer = asked(incidents)
    assert ids(answer) == {story.acme, story.acme_later, story.orion, story.derived, story.researcher}
    assert (answer.affected, answer.derived) == (4, 1)
    assert answer.tokens_delivered == 4 * 64 + 7
    assert answer.exit_code == ExitCode.FOUND


def test_totals_by_tenant_node_day_and_rule(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    answer = asked(incidents)
    assert [(one.tenant.name, one.affected, one.derived, one.unknown) for one in answer.by_tenant] == [
        ("acme", 2, 0, 0),
        ("orion", 1, 1, 1),
        ("lab", 1, 0, 0),
    ]
    assert [(one.node, one.affected, one.derived) for one in answer.by_node] == [
        ("host1/decode-31001-tp0", 2, 1),
        ("host2/decode-31001-tp0", 2, 0),
    ]
    assert [(one.day, one.affected, one.derived, one.unknown) for one in answer.by_day] == [("2026-09-01", 4, 1, 1)]
    assert [(one.rule, one.effect, one.affected) for one in answer.by_rule] == [
        ("read_unwritten_page", "contamination", 5)
    ]


def test_days_are_those_of_utc(book: VerdictBook, incidents: IncidentDesk) -> None:
    midnight = START.replace(day=2, hour=0)
    book.leak(started=midnight - timedelta(seconds=1))
    book.leak(started=midnight)
    book.state()
    assert [one.day for one in asked(incidents).by_day] == ["2026-09-01", "2026-09-02"]


def test_donors_are_counted_by_what_was_read_of_them(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    assert [(one.tenant.name, one.read_by, one.own_responses) for one in asked(incidents).donors] == [("zenith", 5, 5)]


def test_what_is_left_out_is_counted_under_its_first_reason(book: VerdictBook, incidents: IncidentDesk) -> None:
    story = tell(book)
    answer = asked(
        incidents,
        exclude_traffic=["researcher"],
        exclude_tenants=["orion"],
        exclude_nodes=["host2/decode-31001"],
    )
    assert ids(answer) == {story.acme}
    assert [(one.by, one.what, one.responses, one.violations, one.unsure) for one in answer.left_out] == [
        ("node", "host2/decode-31001-tp0", 1, 1, 0),
        ("scope", "no_writer", 1, 1, 0),
        ("tenant", "orion", 3, 2, 1),
        ("traffic", "researcher", 1, 1, 0),
    ]


def test_coverage_is_of_every_response_that_is_not_left_out(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    book.response("acme", verdict="pending", reasons=["decode_leg_running"])
    book.response("acme", model="other")
    book.state()
    answer = asked(incidents, models=["tiny"], exclude_tenants=["zenith"])
    assert answer.counts == Counts(violation=6, clean=1, unknown=1, pending=1)
    assert answer.reasons == {"decode_leg_running": 1, "peer_not_seen": 1}


def test_a_model_a_node_and_a_scope_narrow_the_list(book: VerdictBook, incidents: IncidentDesk) -> None:
    story = tell(book)
    other, _ = book.leak("acme", "zenith", model="other")
    book.state()
    assert ids(asked(incidents, models=["other"])) == {other}
    assert ids(asked(incidents, nodes=["host1/decode-31001"], models=["tiny"])) == {
        story.acme,
        story.derived,
        story.researcher,
    }
    assert ids(asked(incidents, scopes=["no_writer"])) == {story.nobodys_page}


def test_a_rule_narrows_the_list_by_its_name_or_by_one_variant(book: VerdictBook, incidents: IncidentDesk) -> None:
    by_name, _ = book.leak(rules=["read_unwritten_page"])
    book.leak(rules=["release_in_flight.landed"])
    book.state()
    answer = asked(incidents, rules=["read_unwritten_page"])
    assert ids(answer) == {by_name}
    assert ("rule", "release_in_flight.landed", 1) in [(one.by, one.what, one.violations) for one in answer.left_out]


def test_findings_of_another_effect_are_at_risk_and_not_affected(book: VerdictBook, incidents: IncidentDesk) -> None:
    book.response("acme", exposure_rules=["transfer_short.stalled"])
    book.response("acme", exposure_rules=["transfer_short.committed"])
    book.state()
    answer = asked(incidents, rules=["transfer_short.stalled"], effects=["exposure_risk"])
    assert (answer.affected, answer.at_risk, answer.exit_code) == (0, 1, ExitCode.INCOMPLETE)
    assert [(one.rule, one.effect, one.at_risk) for one in answer.by_rule] == [
        ("transfer_short.stalled", "exposure_risk", 1)
    ]


def test_the_window_takes_what_was_in_progress_in_it(book: VerdictBook, incidents: IncidentDesk) -> None:
    begin, end = START + timedelta(hours=1), START + timedelta(hours=2)
    running, _ = book.leak(started=begin - timedelta(minutes=1), ended=begin)
    endless, _ = book.leak(started=begin - timedelta(minutes=1), ended=None)
    book.leak(started=end, ended=end + timedelta(minutes=1))
    book.leak(started=begin - timedelta(minutes=2), ended=begin - timedelta(minutes=1))
    book.state()
    found = asked(incidents, **{"from": begin.isoformat(), "to": end.isoformat()})
    assert ids(found) == {running, endless}


def test_what_may_have_run_anywhere_stays_in_and_unknown(book: VerdictBook, incidents: IncidentDesk) -> None:
    """A gateway delivered it, and no leg says on which node or model."""
    book.response("acme")
    book.response("acme", verdict="unknown", reasons=["leg_not_seen"], model="", emitter="gateway/1")
    book.state()
    answer = asked(incidents, models=["tiny"], nodes=["host1/decode-31001-tp0"])
    assert (answer.counts.clean, answer.counts.unknown) == (1, 1)
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_a_tenant_under_two_keys_is_one_and_never_its_own_donor(book: VerdictBook, incidents: IncidentDesk) -> None:
    book.leak("acme", "zenith", key=OLD)
    book.leak("acme", "zenith")
    own = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=1, foreign_slots=16)
    book.foreign_range(own, donor=book.response("acme", key=OLD), donor_tenant="acme", key=OLD)
    book.state()
    answer = asked(incidents)
    assert [(one.tenant.name, one.affected) for one in answer.by_tenant] == [("acme", 2)]
    assert [(one.by, one.what) for one in answer.left_out] == [("scope", "same_tenant")]
    assert [one.tenant.name for one in answer.donors] == ["zenith"]


def test_complete_evidence_and_nothing_found_is_an_all_clear(book: VerdictBook, incidents: IncidentDesk) -> None:
    book.response("acme")
    book.state()
    hour = {"from": START.isoformat(), "to": (START + timedelta(minutes=30)).isoformat()}
    answer = asked(incidents, **hour)
    assert answer.evidence.incomplete_because == []
    assert answer.exit_code == ExitCode.OK


@pytest.mark.parametrize(
    ("parts", "because"),
    [
        ({}, "the window ends after the watermark"),
        ({"to": "2026-09-01T10:30"}, "the window begins before the start of evidence"),
        ({"from": "2026-08-01", "to": "2026-08-02"}, "no response of the window had been judged"),
    ],
    ids=["late", "early", "none"],
)
def test_nothing_found_over_evidence_that_does_not_reach_is_no_all_clear(
    book: VerdictBook, incidents: IncidentDesk, parts: dict[str, str], because: str
) -> None:
    book.response("acme")
    book.state()
    answer = asked(incidents, **parts)
    assert any(because in sentence for sentence in answer.evidence.incomplete_because)
    assert answer.exit_code == ExitCode.INCOMPLETE


def test_a_rerun_reproduces_everything(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    first = asked(incidents)
    assert incidents.affected(first.incident.name) == first
    assert first.reproduced
    assert first.digest == first.incident.digest


def test_evidence_that_comes_later_moves_nothing(book: VerdictBook, handle: Queries, incidents: IncidentDesk) -> None:
    story = tell(book)
    before = asked(incidents, exclude_traffic=["researcher"])
    book.response("orion", uid=story.unsure)  # it turned out to be clean
    book.response("acme", uid=story.acme)  # so did this
    book.response("acme", uid=story.orion, verdict="retired")
    late, _ = book.leak("calm", "zenith", started=START)
    book.state(watermark=START + timedelta(days=5))
    handle.command("OPTIMIZE TABLE response_versions FINAL")
    handle.command("OPTIMIZE TABLE foreign_range_versions FINAL")
    assert incidents.affected(before.incident.name) == before
    again = incidents.define(before.incident.name, change(as_of="now")).incident
    assert again.digest != before.digest
    assert ids(incidents.affected(before.incident.name)) == {story.acme_later, story.derived, late}
    assert incidents.affected(before.incident.name, 1) == before


def test_the_digest_is_of_the_definition_of_what_it_is_frozen_by_and_of_the_sorted_ids(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk
) -> None:
    """As docs/incidents.md has a reader compute it."""
    tell(book)
    answer = asked(incidents, note="a note does not count")
    uids = sha256("".join(f"{uid}\n" for uid in sorted(ids(answer))).encode()).hexdigest()
    frozen = incidents.book.get(answer.incident.name).as_of
    definition = {
        "models": [],
        "rules": [],
        "nodes": [],
        "excluded_nodes": [],
        "excluded_traffic": [],
        "excluded_tenants": [],
        "effects": ["contamination"],
        "scopes": ["cross_tenant", "unattributed"],
        **{side: f"{text}T00:00:00.000Z" for side, text in DAY.items()},
    }
    as_of = {
        "version": frozen.version,
        "cursor": frozen.cursor,
        "contract": 2,
        "rule_set": frozen.rule_set,
        "rules_digest": frozen.rules_digest,
    }
    lines = [json.dumps(part, sort_keys=True, separators=(",", ":")) for part in (definition, as_of)]
    assert answer.uids_digest == uids
    assert answer.digest == sha256("\n".join([*lines, uids]).encode()).hexdigest()


def test_a_store_that_lost_what_was_frozen_is_not_believed(
    book: VerdictBook, handle: Queries, incidents: IncidentDesk
) -> None:
    story = tell(book)
    name = asked(incidents).incident.name
    handle.command(
        f"ALTER TABLE response_versions DELETE WHERE response_uid = '{story.acme}' SETTINGS mutations_sync = 1"
    )
    answer = incidents.affected(name)
    assert not answer.reproduced
    assert any("not the one that was frozen" in sentence for sentence in answer.evidence.incomplete_because)


def test_the_answer_says_that_it_is_the_operators(book: VerdictBook, incidents: IncidentDesk) -> None:
    tell(book)
    assert asked(incidents).view == "operator"
