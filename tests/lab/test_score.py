"""The figures of the demo: what counts as affected, as false and as missed."""

from __future__ import annotations

from typing import Any

from lab.captures.compare import ForeignSlot, compare
from lab.score import Score, true_donors, true_recipients

TRUTH: dict[str, Any] = {
    "responses": [
        {
            "rid": "r1",
            "tenant": "kestrel",
            "reads": [
                {"page": 7, "slot_start": 0, "slot_end": 2, "owner_rid": "z1", "owner_tenant": "zenith"},
                {"page": 8, "slot_start": 0, "slot_end": 1, "owner_rid": "k0", "owner_tenant": "kestrel"},
            ],
        },
        {
            "rid": "r2",
            "tenant": "acme",
            "reads": [{"page": 9, "slot_start": 0, "slot_end": 1, "owner_rid": "a0", "owner_tenant": "acme"}],
        },
        {"rid": "r3", "tenant": "orion", "reads": []},
    ]
}
SLOTS = [("r1", 7, 0, "z1"), ("r1", 7, 1, "z1"), ("r1", 8, 0, "k0"), ("r2", 9, 0, "a0")]


def scored(
    recipients: set[tuple[str, str]],
    donors: set[tuple[str, str]],
    slots: list[tuple[str, int, int, str]],
    verdicts: tuple[str, ...] = ("r1", "r2"),
) -> Score:
    """The score of an answer that lists these, and says `violation` of these requests' responses."""
    rows = [{"response_uid": rid, "rid": rid, "verdict": "violation"} for rid in verdicts]
    ranges = [
        {"response_uid": rid, "page": page, "slot_start": slot, "slot_end": slot + 1, "donor_rid": donor}
        for rid, page, slot, donor in slots
    ]
    return Score(
        recipients=frozenset(recipients),
        donors=frozenset(donors),
        true_recipients=true_recipients(TRUTH),
        true_donors=true_donors(TRUTH),
        slots=compare(TRUTH, ranges, rows),
        unknown=0,
        details=(),
    )


RIGHT = scored({("kestrel", "r1")}, {("zenith", "z1")}, SLOTS)


def test_affected_is_who_read_bytes_of_another_tenant() -> None:
    assert true_recipients(TRUTH) == {("kestrel", "r1")}
    assert true_donors(TRUTH) == {("zenith", "z1")}


def test_the_right_answer_has_nothing_false_and_nothing_missed() -> None:
    assert RIGHT.as_json() == {"affected": 1, "truth": 1, "false": 0, "missed": 0, "unknown": 0}


def test_a_recipient_that_is_not_listed_is_missed() -> None:
    wrong = scored(set(), {("zenith", "z1")}, SLOTS)
    assert (wrong.affected, wrong.false, wrong.missed) == (0, 0, 1)


def test_a_recipient_under_another_tenants_name_is_both() -> None:
    wrong = scored({("zenith", "r1")}, {("zenith", "z1")}, SLOTS)
    assert (wrong.false, wrong.missed) == (1, 1)


def test_a_donor_too_many_is_false() -> None:
    wrong = scored({("kestrel", "r1")}, {("zenith", "z1"), ("orion", "o1")}, SLOTS)
    assert (wrong.false, wrong.missed) == (1, 0)


def test_one_slot_with_another_donor_is_both() -> None:
    slots = [("r1", 7, 0, "o1"), *SLOTS[1:]]
    wrong = scored({("kestrel", "r1")}, {("zenith", "z1")}, slots)
    assert (wrong.false, wrong.missed) == (1, 1)
    assert wrong.slots.false_slots == {ForeignSlot("r1", 7, 0, "o1")}


def test_one_slot_too_few_is_missed() -> None:
    wrong = scored({("kestrel", "r1")}, {("zenith", "z1")}, SLOTS[:-1])
    assert (wrong.false, wrong.missed) == (0, 1)
