"""An answer is compared with the truth exactly: any difference, in either direction, is named."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lab.captures.compare import NOBODY, ForeignSlot, compare

TRUTH: dict[str, Any] = {
    "responses": [
        {
            "rid": "reader",
            "reads": [
                {"page": 3, "slot_start": 0, "slot_end": 2, "owner_rid": "donor-a"},
                {"page": 3, "slot_start": 2, "slot_end": 4, "owner_rid": "donor-b"},
            ],
        },
        {"rid": "bystander", "reads": []},
    ]
}
RESPONSES = [
    {"response_uid": "u1", "rid": "reader", "verdict": "violation"},
    {"response_uid": "u2", "rid": "bystander", "verdict": "clean"},
]
RANGES = [
    {"response_uid": "u1", "page": 3, "slot_start": 0, "slot_end": 2, "donor_rid": "donor-a"},
    {"response_uid": "u1", "page": 3, "slot_start": 2, "slot_end": 4, "donor_rid": "donor-b"},
]


def test_the_truth_is_equal_to_itself() -> None:
    result = compare(TRUTH, RANGES, RESPONSES)
    assert result.equal
    assert (len(result.recipients), len(result.slots)) == (1, 4)


def test_ranges_may_be_cut_elsewhere() -> None:
    whole, part = RANGES[0], RANGES[1]
    cut = [whole, part | {"slot_end": 3}, part | {"slot_start": 3}]
    assert compare(TRUTH, cut, RESPONSES).equal


def test_a_missed_response_is_named() -> None:
    blind = [RESPONSES[0] | {"verdict": "unknown"}, RESPONSES[1]]
    assert compare(TRUTH, RANGES, blind).missed_recipients == {"reader"}


def test_a_false_response_is_named() -> None:
    alarmed = [RESPONSES[0], RESPONSES[1] | {"verdict": "violation"}]
    assert compare(TRUTH, RANGES, alarmed).false_recipients == {"bystander"}


def test_a_missed_slot_is_named() -> None:
    short = [RANGES[0] | {"slot_end": 1}, RANGES[1]]
    assert compare(TRUTH, short, RESPONSES).missed_slots == {ForeignSlot("reader", 3, 1, "donor-a")}


def test_a_false_slot_is_named() -> None:
    more = [*RANGES, RANGES[0] | {"page": 9, "slot_end": 1}]
    assert compare(TRUTH, more, RESPONSES).false_slots == {ForeignSlot("reader", 9, 0, "donor-a")}


def test_an_open_donor_is_not_counted_in_its_favour() -> None:
    unsure = [RANGES[0] | {"slot_end": 1}, RANGES[0] | {"slot_start": 1, "donor_rid": ""}, RANGES[1]]
    result = compare(TRUTH, unsure, RESPONSES)
    assert result.missed_slots == {ForeignSlot("reader", 3, 1, "donor-a")}
    assert result.false_slots == {ForeignSlot("reader", 3, 1, "")}


def test_a_slot_that_nothing_wrote_is_equal_only_to_one_that_is_said_to_have_no_writer() -> None:
    truth = altered(owner_rid="")
    (first, second) = RANGES
    assert compare(truth, [first | {"donor_rid": "", "scope": "no_writer"}, second], RESPONSES).equal
    open_donor = compare(truth, [first | {"donor_rid": "", "scope": "unattributed"}, second], RESPONSES)
    assert {slot.donor for slot in open_donor.missed_slots} == {NOBODY}


def altered(**change: Any) -> dict[str, Any]:
    truth = copy.deepcopy(TRUTH)
    truth["responses"][0]["reads"][0] |= change
    return truth


@pytest.mark.parametrize("change", [{"owner_rid": "donor-c"}, {"slot_end": 1}, {"page": 4}], ids=str)
def test_an_altered_truth_is_not_equal(change: dict[str, Any]) -> None:
    assert not compare(altered(**change), RANGES, RESPONSES).equal


def test_a_truth_without_the_response_is_not_equal() -> None:
    assert not compare({"responses": TRUTH["responses"][1:]}, RANGES, RESPONSES).equal


def test_a_range_of_an_unknown_response_is_an_error() -> None:
    with pytest.raises(KeyError):
        compare(TRUTH, [RANGES[0] | {"response_uid": "u9"}], RESPONSES)
