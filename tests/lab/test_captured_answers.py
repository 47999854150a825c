"""The committed captures of the real engine: the answers are the truth of the memory's content, exactly."""

from __future__ import annotations

import copy
from collections import defaultdict

import pytest

from lab.captures.capture import Capture
from lab.captures.compare import compare
from tests.lab.answers import FIXED, LEAK, Answers, judge, ordinal_of, spans_of


@pytest.fixture(scope="module")
def leak() -> Capture:
    return Capture.load(LEAK)


@pytest.fixture(scope="module")
def leak_answers(leak: Capture) -> Answers:
    return judge(leak)


@pytest.fixture(scope="module")
def fixed_answers() -> Answers:
    return judge(Capture.load(FIXED))


def test_the_affected_list_is_the_truth_recipients_and_donors_slot_by_slot(
    leak: Capture, leak_answers: Answers
) -> None:
    found = compare(leak.truth, leak_answers.ranges, leak_answers.responses)
    assert found.equal, str(found)
    assert len(found.recipients) == 2


def test_every_other_response_of_the_leaking_pair_is_clean(leak: Capture, leak_answers: Answers) -> None:
    verdicts = list(leak_answers.verdicts().values())
    assert verdicts.count("clean") == len(leak.truth["responses"]) - 2


def test_altering_the_truth_makes_the_comparison_fail(leak: Capture, leak_answers: Answers) -> None:
    truth = copy.deepcopy(leak.truth)
    read = next(read for response in truth["responses"] for read in response["reads"])
    others = {part["owner_rid"] for response in truth["responses"] for part in response["reads"]} - {read["owner_rid"]}
    read["owner_rid"] = min(others)
    assert not compare(truth, leak_answers.ranges, leak_answers.responses).equal


def test_leaving_a_recipient_out_of_the_truth_makes_the_comparison_fail(leak: Capture, leak_answers: Answers) -> None:
    truth = copy.deepcopy(leak.truth)
    next(response for response in truth["responses"] if response["reads"])["reads"] = []
    found = compare(truth, leak_answers.ranges, leak_answers.responses)
    assert len(found.false_recipients) == 1


def test_a_donor_shows_only_in_the_tail_that_a_transfer_carried_along(leak_answers: Answers) -> None:
    tails = {row["donor_tenant"] for row in leak_answers.ranges if row["via"] == "transfer_tail"}
    assert tails - {row["donor_tenant"] for row in leak_answers.ranges if row["via"] == "stale_page"}


def test_the_second_victim_read_pages_of_the_first(leak_answers: Answers) -> None:
    affected = {row["response_uid"] for row in leak_answers.responses if row["verdict"] == "violation"}
    assert affected & {row["donor_response_uid"] for row in leak_answers.ranges}


def test_the_rules_that_the_incident_fires(leak_answers: Answers) -> None:
    assert {(row["rule"], row["variant"]) for row in leak_answers.findings} == {
        ("read_unwritten_page", ""),
        ("reject_then_continue", ""),
        ("transfer_short", "committed"),
        ("capacity_mismatch", "input_limit"),
    }


def test_on_the_fixed_engine_no_response_is_affected_and_the_evidence_is_complete(fixed_answers: Answers) -> None:
    assert set(fixed_answers.verdicts().values()) == {"clean"}
    assert fixed_answers.ranges == []


def test_on_the_fixed_engine_the_stranded_transfers_are_reported_as_what_they_are(fixed_answers: Answers) -> None:
    found = [row for row in fixed_answers.findings if row["rule"] == "transfer_short"]
    assert {(row["variant"], row["effect"]) for row in found} == {("stalled", "exposure_risk")}


def facts_by_response(capture: Capture, answers: Answers) -> dict[str, list[tuple[bytes, int]]]:
    """(trace id, ordinal) of each fact of both legs, by uid of the response."""
    response_of = {row["response_uid"]: row["response_uid"] for row in answers.responses}
    response_of |= {row["prefill_uid"]: row["response_uid"] for row in answers.responses if row["prefill_uid"]}
    facts: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for span in spans_of(capture):
        ordinal = ordinal_of(span)
        if ordinal is not None:
            facts[response_of[span.trace_id.hex()]].append((span.trace_id, ordinal))
    return facts


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize("path", [LEAK, FIXED], ids=lambda path: path.name)
def test_without_any_one_fact_of_its_legs_clean_is_unknown_and_a_violation_stays_one(path: object) -> None:
    """In each round every response has lost one fact, another one each time, until every fact was lost once."""
    capture = Capture.load(path)  # type: ignore[arg-type]
    whole = judge(capture)
    expected = {uid: "violation" if verdict == "violation" else "unknown" for uid, verdict in whole.verdicts().items()}
    facts = facts_by_response(capture, whole)
    assert set(facts) == set(expected)
    wrong = []
    for round_number in range(max(map(len, facts.values()))):
        lost = {own[round_number] for own in facts.values() if round_number < len(own)}
        verdicts = judge(capture, lambda span, lost=lost: (span.trace_id, ordinal_of(span)) not in lost).verdicts()  # type: ignore[misc]
        for uid, own in facts.items():
            if round_number < len(own) and verdicts.get(uid) != expected[uid]:
                wrong.append((uid, own[round_number], verdicts.get(uid), expected[uid]))
    assert wrong == []
