"""A run that does not show what the story is for is no capture, and says which condition failed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.engine import checks
from lab.engine.checks import Run
from lab.engine.stories import oversized_checks
from lab.engine.traffic import Outcome
from lab.engine.truth import join
from tests.lab.truth_lines import PAGE, UNTOUCHED, Script


def outcome(
    rid: str, tenant: str, *, oversized: bool = False, status: int = 200, prefill: int = 200, **seen: int
) -> Outcome:
    """What the client saw; `seen` counts markers of other tenants."""
    own = 0 if oversized else 5
    return Outcome(rid, tenant, oversized, prefill, status, "length", 5, own, dict(seen))


def prefill_page(script: Script, rid: str, page: int, words: Sequence[str]) -> None:
    """A forward on prefill wrote these words to the front of a page."""
    slots = [page * PAGE + offset for offset in range(len(words))]
    script.add("write", "prefill", rid=rid, start=0, slots=slots, hashes=list(words))


def answer(script: Script, rid: str, prompt: int, pages: Sequence[int]) -> None:
    """Decode steps wrote these pages after a prompt of that many tokens."""
    positions = enumerate((page, offset) for page in pages for offset in range(PAGE))
    for number, (page, offset) in positions:
        script.decode_writes(rid, prompt + number, page * PAGE + offset, f"{rid}:{page}:{offset}")


def page_of(page: int, words: Sequence[str]) -> dict[int, str]:
    """What the slots of a page hold."""
    return {page * PAGE + offset: word for offset, word in enumerate(words)}


def served(script: Script, rid: str, source: int, pages: Sequence[int]) -> None:
    """An ordinary request: a prompt of one page, and an answer that crosses three page boundaries."""
    first, *rest = pages
    words = [f"{rid}{offset}" for offset in range(PAGE)]
    prefill_page(script, rid, source, words)
    script.reserves(rid, page_of(first, [UNTOUCHED] * PAGE)).reads(rid, page_of(first, words))
    answer(script, rid, PAGE, rest)


def oversized(script: Script, rid: str, tail: Sequence[str], pages: Sequence[int], stale: dict[int, str]) -> None:
    """A rejected prompt: one token is its own, the rest of its page came along, what follows lay there before."""
    first, *rest = pages
    prefill_page(script, rid, 1, ["scrap"])
    script.reserves(rid, page_of(first, [UNTOUCHED] * (1 + len(tail))) | stale)
    script.reads(rid, page_of(first, ["scrap", *tail]) | stale)
    answer(script, rid, 1 + len(tail) + len(stale), rest)


def leak() -> tuple[Script, list[Outcome]]:
    """Two tenants' oversized prompts over warm pools of 3 and 7 pages, as the story wants it."""
    script = Script()
    script.lines[0]["slots"], script.lines[1]["slots"] = 3 * PAGE, 7 * PAGE
    served(script, "a1", 1, [1, 2, 3, 4, 5])
    served(script, "a2", 2, [2, 4, 5, 6, 7])
    served(script, "a3", 2, [3, 1, 5, 6, 7])
    served(script, "z", 1, [3, 1, 6, 7, 2])
    oversized(script, "big1", ["z1", "z2", "z3"], [1, 2, 3, 5, 6], page_of(4, [f"a2:4:{n}" for n in range(PAGE)]))
    oversized(script, "big2", [], [7, 1, 2, 3, 4], page_of(5, [f"big1:5:{n}" for n in range(PAGE)]))
    outcomes = [outcome(rid, "acme") for rid in ("a1", "a2", "a3")] + [outcome("z", "zenith")]
    outcomes.append(outcome("big1", "kestrel", oversized=True, acme=3))
    outcomes.append(outcome("big2", "juniper", oversized=True, acme=2))
    return script, outcomes


def faults(script: Script, outcomes: list[Outcome], version: str = "0.5.19") -> list[str]:
    records = script.records()
    return checks.faults(Run(records, join(records), tuple(outcomes)), oversized_checks.checks(version))


def put(outcomes: list[Outcome], new: Outcome) -> list[Outcome]:
    """The outcomes with that of one request replaced."""
    return [new if old.rid == new.rid else old for old in outcomes]


def without(script: Script, **fields: object) -> Script:
    """The script without the lines that have all these fields."""
    script.lines = [line for line in script.lines if not all(line.get(k) == v for k, v in fields.items())]
    return script


def test_a_run_that_shows_everything_has_no_fault() -> None:
    assert faults(*leak()) == []


def test_an_answer_without_a_seen_read_is_a_fault() -> None:
    script, outcomes = leak()
    blind = without(script, kind="read", rid="z")
    assert "z was answered, but no read was seen" in faults(blind, outcomes)


def test_an_ambiguous_slot_is_a_fault() -> None:
    script, outcomes = leak()
    script.prefill_writes("a1", ["big1:5:0"])
    script.lines[-1]["t"] = 3  # somebody else wrote these bytes too, before they were read
    assert any(fault.startswith("no one owner: big2") for fault in faults(script, outcomes))


@pytest.mark.parametrize(
    "wrong",
    [outcome("z", "zenith", status=500), outcome("z", "zenith", prefill=400), outcome("z", "zenith", acme=1)],
    ids=["no answer", "rejected", "foreign marker"],
)
def test_an_ordinary_request_that_went_wrong_is_a_fault(wrong: Outcome) -> None:
    script, outcomes = leak()
    assert any(fault.startswith("ordinary z") for fault in faults(script, put(outcomes, wrong)))


def test_an_affected_ordinary_response_is_a_fault() -> None:
    script, outcomes = leak()
    found = faults(script, put(outcomes, outcome("big1", "kestrel")))
    assert "ordinary response big1 read 7 foreign slots" in found


def test_a_slot_that_was_never_written_is_a_fault() -> None:
    script, outcomes = leak()
    oversized(script, "big3", [], [6, 1, 2, 3, 4], page_of(7, [UNTOUCHED] * PAGE))
    outcomes.append(outcome("big3", "kestrel", oversized=True, acme=2))
    assert "big3 read 4 slots that nothing ever wrote: the pool was not warm" in faults(script, outcomes)


def test_a_cold_pool_is_a_fault() -> None:
    script, outcomes = leak()
    script.lines[0]["slots"] = 30 * PAGE
    assert any(fault.startswith("the prefill pool was not warm: 28 of 30") for fault in faults(script, outcomes))


def test_a_pool_that_was_used_once_is_a_fault() -> None:
    script, outcomes = leak()
    once = without(without(script, role="prefill", rid="a3"), role="prefill", rid="z")
    assert "the prefill pool did not recycle: 0 of 3 pages were used twice" in faults(once, outcomes)


def test_a_short_answer_is_a_fault() -> None:
    script, outcomes = leak()
    script.lines = [line for line in script.lines if line.get("rid") != "a1" or line.get("start", 0) < 2 * PAGE]
    assert "the answer of a1 crossed 0 page boundaries, not 3" in faults(script, outcomes)


def test_two_victims_of_one_tenant_are_a_fault() -> None:
    script, outcomes = leak()
    found = faults(script, put(outcomes, outcome("big2", "kestrel", oversized=True, acme=2)))
    assert "2 responses of fewer than two tenants are affected" in found


def test_a_donor_whose_bytes_lay_in_a_page_too_is_not_one_by_transfer_only() -> None:
    script, outcomes = leak()
    found = faults(script, put(outcomes, outcome("z", "acme")))
    assert "no tenant is a donor by the tail of a transferred page alone" in found


def test_foreign_bytes_of_prompts_alone_are_a_fault() -> None:
    script, outcomes = leak()
    for line in script.lines:
        if line["kind"] == "write" and line["rid"] in ("a2", "big1"):
            line["role"] = "prefill"
    assert "no foreign slot was written by a decode step" in faults(script, outcomes)


def test_a_second_victim_that_reads_nothing_of_the_first_is_a_fault() -> None:
    script, outcomes = leak()
    other_way_round = [*outcomes[:-2], outcomes[-1], outcomes[-2]]
    assert "the second oversized response big1 read nothing of the first, big2" in faults(script, other_way_round)


def test_one_oversized_prompt_is_a_fault() -> None:
    script, outcomes = leak()
    found = faults(script, put(outcomes, outcome("big2", "juniper")))
    assert "1 oversized prompts were sent, not two" in found


def test_a_leak_that_nobody_could_read_is_a_fault() -> None:
    script, outcomes = leak()
    found = faults(script, put(outcomes, outcome("big1", "kestrel", oversized=True)))
    assert "the answer of the oversized big1: decode 200, markers of others {}" in found


def test_on_a_fixed_engine_any_affected_response_is_a_fault() -> None:
    assert "response big1 read 7 foreign slots" in faults(*leak(), version="0.5.23")


def test_on_a_fixed_engine_an_oversized_prompt_is_rejected() -> None:
    assert "the oversized big1: prefill 200, decode 200" in faults(*leak(), version="0.5.23")
