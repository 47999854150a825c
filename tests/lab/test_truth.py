"""Whose bytes a response read, from memory content alone: one owner a slot, or no truth."""

from __future__ import annotations

import pytest

from lab.engine.truth import (
    LATE_WRITE,
    NEVER_WRITTEN,
    NOBODY,
    OWN,
    SHARED,
    STALE_PAGE,
    TRANSFER_TAIL,
    SlotRead,
    Truth,
    join,
    ranges,
)
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


def test_a_slot_that_nothing_ever_wrote_is_nobodys() -> None:
    script = Script().prefill_writes("a", ["a0"])
    script.reserves("a", {4: UNTOUCHED, 5: UNTOUCHED}).reads("a", {4: "a0", 5: UNTOUCHED})
    truth = join(script.records())
    assert owners(truth, "a") == [("a", OWN), (NOBODY, NEVER_WRITTEN)]
    assert not truth.ambiguities


def test_a_slot_that_nothing_ever_wrote_is_foreign_to_its_reader() -> None:
    script = Script().reserves("a", {4: UNTOUCHED}).reads("a", {4: UNTOUCHED})
    (response,) = join(script.records()).responses
    assert len(response.foreign) == 1


def test_the_tail_of_a_source_page_that_nothing_ever_wrote_is_nobodys() -> None:
    script = Script().prefill_writes("a", ["a0"]).prefill_writes("b", ["b0"])
    script.reserves("a", {4: UNTOUCHED, 5: "b0"}).reads("a", {4: "a0", 5: UNTOUCHED})
    assert owners(join(script.records()), "a") == [("a", OWN), (NOBODY, NEVER_WRITTEN)]


def test_bytes_that_vanished_from_a_reserved_page_have_no_owner() -> None:
    held = {4: "a0", 5: "a1", 6: "a2", 7: "a3", 8: UNTOUCHED}
    script = Script().prefill_writes("a", list(held.values())[:4]).prefill_writes("b", ["b0"])
    script.reserves("a", dict.fromkeys(held, "b0")).reads("a", held)
    assert why(join(script.records())) == ["nobody wrote these bytes: the pool was not warm"]


def test_bytes_that_nobody_wrote_have_no_owner() -> None:
    script = Script().prefill_writes("a", ["a0"])
    script.reserves("a", {4: UNTOUCHED, 5: "noise"}).reads("a", {4: "a0", 5: "noise"})
    assert why(join(script.records())) == ["nobody wrote these bytes: the pool was not warm"]


def test_bytes_written_only_later_have_no_owner() -> None:
    script = Script().prefill_writes("b", ["b0"]).reserves("b", {4: UNTOUCHED, 5: "a0"}).reads("b", {4: "b0", 5: "a0"})
    script.prefill_writes("a", ["a0"])
    assert why(join(script.records())) == ["nobody wrote these bytes: the pool was not warm"]


def test_without_a_snapshot_anothers_bytes_cannot_be_told() -> None:
    script = Script().prefill_writes("a", ["a0"]).prefill_writes("b", ["b0"]).reads("b", {4: "a0"})
    assert why(join(script.records())) == ["no snapshot of this slot was taken before the transfer"]


def test_bytes_that_came_into_a_reserved_page_without_a_transfer_of_the_readers_are_a_late_write() -> None:
    """The reader's prompt ends in the first page; what came into the second is no tail of its transfer."""
    script = Script().prefill_writes("a", ["a0"]).prefill_writes("b", ["b0", "b1", "b2", "b3"])
    held = {4: "b0", 5: "b1", 6: "b2", 7: "b3", 8: "a0"}
    script.reserves("b", dict.fromkeys(held, UNTOUCHED)).reads("b", held)
    assert owners(join(script.records()), "b")[-1] == ("a", LATE_WRITE)


def retracted() -> Script:
    """A request is answered, loses its pages, and gets others with what it had."""
    script = Script().prefill_writes("a", ["a0"]).reserves("a", {4: UNTOUCHED}).reads("a", {4: "a0"})
    return script.decode_writes("a", 1, 5, "a1").ends("a", {4: "a0", 5: "a1"})


def test_what_a_retracted_request_gets_back_is_its_own_wherever_it_lies() -> None:
    script = retracted().reads("a", {12: "a0", 13: "a1"})
    (response,) = join(script.records()).responses
    assert [(slot.page, slot.owner, slot.via) for slot in response.again] == [(3, "a", OWN)] * 2
    assert not response.foreign


def test_what_was_in_the_pages_of_a_resumed_request_is_not_told_by_its_old_snapshot() -> None:
    script = Script().prefill_writes("b", ["b0"])
    script.lines += retracted().lines[2:]
    for number, line in enumerate(script.lines, start=1):
        line["t"] = number
    assert why(join(script.reads("a", {12: "b0", 13: "a1"}).records())) == [
        "no snapshot of this slot was taken before the transfer"
    ]


def test_a_resumed_request_is_checked_against_what_it_read_then() -> None:
    script = retracted().reads("a", {12: "a0", 13: "a1"}).ends("a", {12: "other", 13: "a1"})
    (ambiguity,) = join(script.records()).ambiguities
    assert (ambiguity.page, ambiguity.slot) == (3, 0)


def one_text() -> Script:
    """Two requests of one text: the first computed it in slot 0 of prefill, the second in slot 8."""
    script = Script().add("write", "prefill", rid="a", start=0, slots=[0, 1], hashes=["t0", "t1"])
    script.reserves("a", {4: UNTOUCHED, 5: UNTOUCHED}).reads("a", {4: "t0", 5: "t1"})
    return script.add("write", "prefill", rid="b", start=0, slots=[8, 9], hashes=["t0", "t1"])


def test_what_prefill_reused_belongs_to_who_computed_it_in_that_place() -> None:
    script = one_text().prefill_reuses("c", {8: "t0", 9: "t1"})
    script.reserves("c", {12: UNTOUCHED, 13: UNTOUCHED}).reads("c", {12: "t0", 13: "t1"})
    truth = join(script.records())
    assert owners(truth, "c") == [("b", SHARED), ("b", SHARED)]
    assert not truth.ambiguities


def test_what_is_shared_on_purpose_is_not_foreign() -> None:
    script = one_text().prefill_reuses("c", {8: "t0"}).reserves("c", {12: UNTOUCHED}).reads("c", {12: "t0"})
    response = next(response for response in join(script.records()).responses if response.rid == "c")
    assert (response.foreign, len(response.shared)) == ((), 1)


def test_what_decode_reused_belongs_to_whose_it_was_in_that_place() -> None:
    script = one_text().decode_reuses("c", {4: "t0"})
    script.prefill_writes("c", ["c1"], start=1).reserves("c", {13: UNTOUCHED}).reads("c", {4: "t0", 13: "c1"})
    truth = join(script.records())
    assert owners(truth, "c") == [("a", SHARED), ("c", OWN)]
    assert not truth.ambiguities


def test_equal_text_that_was_not_reused_is_the_readers_own() -> None:
    script = one_text().reserves("b", {12: UNTOUCHED, 13: UNTOUCHED}).reads("b", {12: "t0", 13: "t1"})
    assert owners(join(script.records()), "b") == [("b", OWN), ("b", OWN)]


def test_a_reuse_of_bytes_that_lay_in_the_page_before_has_no_one_owner() -> None:
    script = one_text().prefill_reuses("c", {8: "t0"}).reserves("c", {12: "t0"}).reads("c", {12: "t0"})
    assert why(join(script.records())) == ["the reader wrote these bytes, and the slot held them before"]


@pytest.mark.parametrize(("second", "expected"), [("a0", 0), ("b0", 1)], ids=["alike", "otherwise"])
def test_the_ranks_of_a_node_must_agree(second: str, expected: int) -> None:
    script = Script(ranks=2)
    for rank, word in enumerate(("a0", second)):
        script.rank = rank
        script.prefill_writes("a", ["a0"]).prefill_writes("b", ["b0"])
        script.reserves("a", {4: "b0" if word == "b0" else UNTOUCHED}).reads("a", {4: word})
    truth = join(script.records())
    assert why(truth) == ["rank 1 read other slots than rank 0"] * expected


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
