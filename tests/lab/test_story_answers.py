"""The captures of the stories: what the answers say of the evidence agrees with what memory held."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from lab.captures.capture import Capture
from lab.captures.compare import compare
from lab.engine.capture import default_folder
from lab.engine.stories import STORIES
from tests.lab.answers import Answers, disagreements, judge

KEPT = [default_folder(story, version) for story in STORIES.values() for version in story.versions]
BY_TEST = {"oversized"}
"""Stories that `test_captured_answers` looks at closely."""

UNKNOWN: dict[str, set[str]] = {
    "killed": {"prefill_leg_never_ended"},
    "prefix": {"prefix_unattributed"},
    "prefix-decode": {"prefix_unattributed"},
}
"""Why the answers to a story may be `unknown`; to every other story none is."""

FOLDERS = pytest.mark.parametrize(
    "folder", [each for each in KEPT if each.name.split("-", 2)[2] not in BY_TEST], ids=lambda folder: folder.name
)


def folder_of(name: str) -> Path:
    """The capture of a story on the first version that it is kept of."""
    return default_folder(STORIES[name], STORIES[name].versions[0])


@cache
def judged(folder: Path) -> tuple[Capture, Answers]:
    capture = Capture.load(folder)
    return capture, judge(capture)


@FOLDERS
def test_nothing_foreign_is_called_clean_and_nothing_of_ones_own_a_violation(folder: Path) -> None:
    assert disagreements(*judged(folder)) == []


@FOLDERS
def test_what_is_unknown_is_so_for_a_reason_that_the_story_gives(folder: Path) -> None:
    _, answers = judged(folder)
    reasons = {why for row in answers.responses if row["verdict"] == "unknown" for why in row["reasons"]}
    assert reasons <= UNKNOWN.get(folder.name.split("-", 2)[2], set())


@FOLDERS
def test_every_response_that_memory_saw_being_read_is_answered_for(folder: Path) -> None:
    capture, answers = judged(folder)
    assert {response["rid"] for response in capture.truth["responses"]} <= {row["rid"] for row in answers.responses}


@pytest.mark.parametrize("story", ["fake", "ranks"])
def test_the_affected_list_of_a_fault_is_the_truth_slot_by_slot(story: str) -> None:
    capture, answers = judged(folder_of(story))
    found = compare(capture.truth, answers.ranges, answers.responses)
    assert found.recipients
    assert found.equal, str(found)


def test_what_was_answered_without_a_transfer_says_so() -> None:
    _, answers = judged(folder_of("fake"))
    said = [(row["verdict"], row["reasons"]) for row in answers.responses if "no_prefill" in row["reasons"]]
    assert said == [("violation", ["no_prefill"])] * 3


def test_slots_that_nothing_ever_wrote_are_no_tenants() -> None:
    _, answers = judged(folder_of("fake"))
    (row,) = [row for row in answers.responses if row["scope"] == "no_writer"]
    assert (row["no_writer_slots"], row["foreign_slots"], row["donor_tenants"]) == (96, 96, 0)


def test_the_legs_of_two_ranks_are_one_response() -> None:
    capture, answers = judged(folder_of("ranks"))
    rids = [row["rid"] for row in answers.responses]
    assert len(rids) == len(set(rids)) == len(capture.traffic["requests"])


def test_only_a_tenants_own_reuse_is_clean_and_reuse_without_a_salt_is_unknown() -> None:
    capture, answers = judged(folder_of("prefix"))
    shared = {response["rid"] for response in capture.truth["responses"] if response["shared"]}
    salted = {request["rid"]: request["salted"] for request in capture.traffic["requests"]}
    verdicts = {row["rid"]: row["verdict"] for row in answers.responses}
    assert {(salted[rid], verdicts[rid]) for rid in shared} == {(True, "clean"), (False, "unknown")}


def test_a_transfer_that_one_node_gave_up_is_reported_as_stalled_on_the_other() -> None:
    """Prefill alone was told to abort: decode keeps the pages until its own time is out."""
    _, answers = judged(folder_of("aborted"))
    assert {(row["rule"], row["variant"], row["effect"]) for row in answers.findings} == {
        ("transfer_short", "stalled", "exposure_risk")
    }


def test_a_truth_that_the_answers_know_nothing_of_is_a_disagreement() -> None:
    capture, answers = judged(folder_of("disconnected"))
    truth = copy.deepcopy(capture.truth)
    reader, owner, *_ = truth["responses"]
    reader["reads"] = [{"page": 1, "slot_start": 0, "slot_end": 1, "owner_rid": owner["rid"], "via": "stale_page"}]
    (said,) = disagreements(replace(capture, truth=truth), answers)
    assert said == f"{reader['rid']} is called clean, and is not"
