"""Whose bytes a response read, from memory content alone: one owner a slot, or no truth."""

from __future__ import annotations

from lab.engine.truth import OWN, STALE_PAGE, TRANSFER_TAIL, SlotRead, Truth, join, ranges
from tests.lab.truth_lines import PAGE, UNTOUCHED, Script


def owners(truth: Truth, rid: str) -> list[tuple[str, str]]:
    (response,) = [response for response in truth.responses if response.rid == rid]
    return [(slot.owner, slot.via) for slot in response.slots]


def why(truth: Truth) -> list[str]:
    return [ambiguity.why for ambiguity in truth.ambiguities]


def test_what_a_request_wrote_and_got_by_transfer_is_its_own() -> None:
    script = Script().prefill_writes("a", ["a0", "a1"])
    script.reserves("a", {4: UNTOUCHED, 5: UNTOUCHED}).reads("a", {4: "a0", 5: "a1"})
    truth = join(script.records())
    assert owners(truth, "a") == [("a", OWN), ("a", OWN)]
    assert not truth.ambiguities


def test_bytes_that_lay_in_a_reserved_page_belong_to_who_wrote_them() -> None:
    script = Script().prefill_writes("a", ["a0", "a1"]).decode_writes("a", 2, 6, "a2").prefill_writes("b", ["b0"])
    script.reserves("b", {4: "a0", 5: "a1", 6: "a2"}).reads("b", {4: "b0", 5: "a1", 6: "a2"})
    truth = join(script.records())
    assert owners(truth, "b") == [("b", OWN), ("a", STALE_PAGE), ("a", STALE_PAGE)]


def test_bytes_that_came_with_the_transfer_but_from_another_request_are_its_tail() -> None:
    script = Script().prefill_writes("a", ["a0", "a1"]).prefill_writes("b", ["b0"])
    script.reserves("b", {4: UNTOUCHED, 5: UNTOUCHED}).reads("b", {4: "b0", 5: "a1"})
    truth = join(script.records())
    assert owners(truth, "b") == [("b", OWN), ("a", TRANSFER_TAIL)]


def test_equal_bytes_that_were_there_before_are_not_the_readers() -> None:
    """Two rejected prompts are replaced by the same token: their first slots are equal."""
    script = Script().prefill_writes("first", ["scrap"]).prefill_writes("second", ["scrap"])
    script.reserves("second", {4: UNTOUCHED, 5: "scrap"}).reads("second", {4: "scrap", 5: "scrap"})
    truth = join(script.records())
    assert owners(truth, "second") == [("second", OWN), ("first", STALE_PAGE)]
    assert not truth.ambiguities


def test_equal_bytes_in_the_readers_own_place_have_no_one_owner() -> None:
    script = Script().prefill_writes("first", ["scrap"]).prefill_writes("second", ["scrap"])
    script.reserves("second", {4: "scrap"}).reads("second", {4: "scrap"})
    assert why(join(script.records())) == ["the reader wrote these bytes, and the slot held them before"]


def test_the_readers_bytes_in_another_place_have_no_one_owner() -> None:
    script = Script().prefill_writes("a", ["a0", "a1"])
    script.reserves("a", {4: UNTOUCHED, 5: UNTOUCHED}).reads("a", {4: "a0", 5: "a0"})
    assert why(join(script.records())) == ["the reader wrote these bytes, but for another position"]


def test_bytes_that_two_others_wrote_have_no_one_owner() -> None:
    script = Script().prefill_writes("a", ["same"]).prefill_writes("b", ["same"]).prefill_writes("c", ["c0"])
    script.reserves("c", {4: UNTOUCHED, 5: "same"}).reads("c", {4: "c0", 5: "same"})
    assert why(join(script.records())) == ["2 other requests wrote these bytes: a, b"]


def test_bytes_that_nobody_wrote_have_no_owner() -> None:
    script = Script().prefill_writes("a", ["a0"])
    script.reserves("a", {4: UNTOUCHED, 5: UNTOUCHED}).reads("a", {4: "a0", 5: UNTOUCHED})
    assert why(join(script.records())) == ["nobody wrote these bytes: the pool was not warm"]


def test_bytes_written_only_later_have_no_owner() -> None:
    script = Script().prefill_writes("b", ["b0"]).reserves("b", {4: UNTOUCHED, 5: "a0"}).reads("b", {4: "b0", 5: "a0"})
    script.prefill_writes("a", ["a0"])
    assert why(join(script.records())) == ["nobody wrote these bytes: the pool was not warm"]


def test_without_a_snapshot_nothing_can_be_told() -> None:
    script = Script().prefill_writes("a", ["a0"]).reads("a", {4: "a0"})
    assert why(join(script.records())) == ["no snapshot of this slot was taken before the transfer"]


def test_a_slot_that_changed_under_the_reader_is_no_truth() -> None:
    script = Script().prefill_writes("a", ["a0"]).reserves("a", {4: UNTOUCHED}).reads("a", {4: "a0"})
    script.decode_writes("a", 1, 5, "a1").ends("a", {4: "other", 5: "a1"})
    (ambiguity,) = join(script.records()).ambiguities
    assert (ambiguity.position, ambiguity.page, ambiguity.slot) == (0, 1, 0)


def test_a_readers_own_answer_is_checked_at_its_end() -> None:
    script = Script().prefill_writes("a", ["a0"]).reserves("a", {4: UNTOUCHED}).reads("a", {4: "a0"})
    script.decode_writes("a", 1, 5, "a1").ends("a", {4: "a0", 5: "a1"})
    assert not join(script.records()).ambiguities


def slot_read(position: int, page: int, slot: int, owner: str = "a", via: str = STALE_PAGE) -> SlotRead:
    return SlotRead(position, page, slot, owner, via)


def test_neighbouring_slots_of_one_page_and_owner_are_one_range() -> None:
    (only,) = ranges((slot_read(8, 3, 1), slot_read(9, 3, 2), slot_read(10, 3, 3)))
    assert (only.page, only.slot_start, only.slot_end, only.token_start, only.owner) == (3, 1, 4, 8, "a")


def test_a_range_ends_with_its_page_its_owner_and_its_way() -> None:
    slots = (
        slot_read(0, 3, PAGE - 1),
        slot_read(1, 4, 0),
        slot_read(2, 4, 1, owner="b"),
        slot_read(3, 4, 2, owner="b", via=TRANSFER_TAIL),
        slot_read(5, 5, 1, owner="b", via=TRANSFER_TAIL),
    )
    assert [part.slot_end - part.slot_start for part in ranges(slots)] == [1, 1, 1, 1, 1]


def test_no_slots_are_no_ranges() -> None:
    assert ranges(()) == []
