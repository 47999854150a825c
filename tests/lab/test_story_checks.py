"""What each story is for: a run that shows it has no fault, and one that does not says what is missing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from lab.engine.checks import Check, Run
from lab.engine.stories import STORIES, aborted, disconnected, fake, killed, prefix, ranks, retracted
from lab.engine.traffic import Outcome, prompt
from lab.engine.truth import join
from tests.lab.truth_lines import UNTOUCHED, Script


def outcome(rid: str, tenant: str, *, did: str = "", fake: bool = False, prefill: int = 200, status: int = 200,
            oversized: bool = False, **seen: int) -> Outcome:  # fmt: skip
    """What the client saw; `seen` counts markers of other tenants."""
    return Outcome(rid, tenant, oversized, prefill, status, "length" if status == 200 else "", 5, 5, seen, did, fake)


def faults(checks: Iterable[Check], script: Script, *outcomes: Outcome) -> list[str]:
    records = script.records()
    run = Run(records, join(records), outcomes)
    return [fault for check in checks for fault in check(run)]


def untouched(*slots: int) -> dict[int, str]:
    return dict.fromkeys(slots, UNTOUCHED)


def served(script: Script, rid: str, slots: Iterable[int]) -> Script:
    """An ordinary request: prefill computed it, decode reserved these slots and read them."""
    held = {slot: f"{rid}{number}" for number, slot in enumerate(slots)}
    script.prefill_writes(rid, list(held.values()))
    return script.reserves(rid, untouched(*held)).reads(rid, held)


def test_a_story_is_found_by_its_name() -> None:
    assert all(story.name == name for name, story in STORIES.items())


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_story_says_in_a_line_what_it_is_about(name: str) -> None:
    assert 20 < len(STORIES[name].about) < 120


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_story_runs_with_the_truth_beside_it_on_each_of_its_versions(name: str) -> None:
    story = STORIES[name]
    assert all(story.settings(version).truth and story.checks(version) for version in story.versions)


class TestFake:
    """Requests that decode served without a transfer."""

    def script(self) -> Script:
        script = Script().reserves("f0", untouched(4)).reads("f0", untouched(4))
        for rid, slot in (("a", 8), ("b", 9)):
            served(script, rid, [slot])
        for rid in ("f1", "f2"):
            script.reserves(rid, {8: "a0", 9: "b0"}).reads(rid, {8: "a0", 9: "b0"})
        return script

    def outcomes(self) -> list[Outcome]:
        fakes = [outcome("f0", fake.ON_NOTHING, fake=True, prefill=0)]
        fakes += [
            outcome(rid, tenant, fake=True, prefill=0, acme=1)
            for rid, tenant in zip(("f1", "f2"), fake.ON_OTHERS, strict=True)
        ]
        return [*fakes, outcome("a", "acme"), outcome("b", "orion")]

    def test_a_run_that_shows_it_has_no_fault(self) -> None:
        assert faults(fake._CHECKS, self.script(), *self.outcomes()) == []

    def test_one_that_prefill_answered_is_a_fault(self) -> None:
        (first, *rest) = self.outcomes()
        wrong = outcome(first.rid, first.tenant, fake=True, prefill=200)
        assert "the fake f0: prefill 200, decode 200 'length'" in faults(fake._CHECKS, self.script(), wrong, *rest)

    def test_one_donor_alone_is_a_fault(self) -> None:
        outcomes = [*self.outcomes()[:-1], outcome("b", "acme")]
        found = faults(fake._CHECKS, self.script(), *outcomes)
        assert f"the fake request of {fake.ON_OTHERS[0]} read bytes of ['acme'], not of two other tenants" in found


class TestRanks:
    """The oversized prompt on two ranks."""

    def script(self, blind: int | None = None) -> Script:
        script = Script(ranks=2)
        for script.rank in (0, 1):
            served(script, "a", [8])
            served(script, "b", [9])
            if script.rank != blind:
                script.prefill_writes("big", ["big0"])
                script.reserves("big", {4: UNTOUCHED, 8: "a0", 9: "b0"}).reads("big", {4: "big0", 8: "a0", 9: "b0"})
        return script

    def outcomes(self) -> list[Outcome]:
        return [outcome("a", "acme"), outcome("b", "orion"), outcome("big", ranks.VICTIM, oversized=True, acme=2)]

    def test_a_run_that_shows_it_has_no_fault(self) -> None:
        assert faults(ranks._CHECKS, self.script(), *self.outcomes()) == []

    def test_a_rank_that_did_not_see_a_response_is_a_fault(self) -> None:
        assert "the ranks saw different responses: {0: 3, 1: 2}" in faults(
            ranks._CHECKS, self.script(blind=1), *self.outcomes()
        )


def chunks(script: Script, rid: str, tokens: int) -> Script:
    """Prefill computed this much of a prompt."""
    return script.prefill_writes(rid, [f"{rid}:{number}" for number in range(tokens)])


class TestDisconnected:
    """Clients that go away."""

    def script(self, during: int = 96) -> Script:
        script = chunks(Script(), "during", during).reserves("before", untouched(4))
        return served(script, "after", [8]).decode_writes("after", 1, 9, "after1")

    def outcomes(self, status: int = 0) -> list[Outcome]:
        tenants = {"before": disconnected.BEFORE, "during": disconnected.DURING, "after": disconnected.AFTER}
        return [outcome(rid, tenant, did="hung_up", prefill=0, status=status) for rid, tenant in tenants.items()]

    def test_a_run_that_shows_it_has_no_fault(self) -> None:
        assert faults(disconnected._CHECKS, self.script(), *self.outcomes()) == []

    def test_a_transfer_that_was_over_is_a_fault(self) -> None:
        found = faults(disconnected._CHECKS, self.script(during=disconnected.LONG), *self.outcomes())
        assert found == ["prefill computed 896 of 896 tokens of during; decode read it: False"]

    def test_an_answer_to_somebody_who_left_is_a_fault(self) -> None:
        assert "before was answered 200" in faults(disconnected._CHECKS, self.script(), *self.outcomes(status=200))

    def test_a_request_that_was_read_though_its_client_left_before_is_a_fault(self) -> None:
        script = served(self.script(), "before", [12])
        assert "before was read on decode" in faults(disconnected._CHECKS, script, *self.outcomes())


class TestAborted:
    """Requests that are aborted."""

    def outcomes(self) -> list[Outcome]:
        tenants = (aborted.BOTH, aborted.ON_DECODE, aborted.ON_PREFILL, aborted.ANSWERING)
        return [outcome(f"r{number}", tenant, did="aborted", status=500) for number, tenant in enumerate(tenants)]

    def script(self) -> Script:
        script = Script()
        for slot, rid in enumerate(("r0", "r1", "r2"), start=4):
            chunks(script, rid, 96).reserves(rid, untouched(slot))
            served(script, f"after {rid}", [slot])
        return served(script, "r3", [8]).decode_writes("r3", 1, 9, "r31")

    def test_a_run_that_shows_it_has_no_fault(self) -> None:
        assert faults(aborted._CHECKS, self.script(), *self.outcomes()) == []

    def test_pages_that_nobody_took_over_are_a_fault(self) -> None:
        script = self.script()
        script.lines = [line for line in script.lines if line.get("rid") != "after r1" or line["kind"] != "read"]
        found = faults(aborted._CHECKS, script, *self.outcomes())
        assert found == ["nobody got a page that was reserved for r1"]

    def test_a_read_of_what_was_aborted_on_the_way_is_a_fault(self) -> None:
        script = self.script().reads("r1", {5: "r1:0"})
        assert "r1 was aborted during its transfer, and read" in faults(aborted._CHECKS, script, *self.outcomes())


class TestRetracted:
    """Retraction under memory pressure."""

    def script(self, resumed_in: int = 12) -> Script:
        script = served(Script(), "a", [4]).ends("a", {4: "a0"})
        script.decode_writes("b", 1, 4, "b1")
        return script.reads("a", {resumed_in: "a0"})

    def test_a_run_that_shows_it_has_no_fault(self) -> None:
        assert faults(retracted._CHECKS, self.script(), outcome("a", "acme")) == []

    def test_no_retraction_is_a_fault(self) -> None:
        assert "no request was retracted" in faults(retracted._CHECKS, served(Script(), "a", [4]), outcome("a", "acme"))

    def test_a_request_that_got_its_old_pages_back_is_a_fault(self) -> None:
        found = faults(retracted._CHECKS, self.script(resumed_in=5), outcome("a", "acme"))
        assert found == ["a was resumed in the very pages that it had before"]


class TestPrefix:
    """Equal beginnings."""

    def test_all_its_prompts_that_share_are_one_text(self) -> None:
        asks = [prefix._ask(prefix.SAME), prefix._ask(prefix.OTHER), prefix._ask(prefix.UNSALTED[0], salted=False)]
        assert len({prompt(ask, number) for number, ask in enumerate(asks)}) == 1

    def test_a_reuse_across_salts_is_a_fault(self) -> None:
        script = Script()
        for number, rid in enumerate(("first", "again", "other", "lone", "follower", "third", "last")):
            if rid == "other":
                script.prefill_reuses(rid, {0: "again0"})
                script.reserves(rid, untouched(4 * number)).reads(rid, {4 * number: "again0"})
            else:
                served(script, rid, [4 * number])
        rids = ("first", "again", "other", "lone", "follower", "third", "last")
        found = faults(prefix._CHECKS, script, *(outcome(rid, "acme") for rid in rids))
        assert "other shares 1 slots of ['again'], expected of []" in found


class TestKilled:
    """Prefill is killed on the way."""

    def test_a_run_that_shows_it_has_no_fault(self) -> None:
        script = chunks(Script(), "v", killed.CHUNKS * disconnected.CHUNK)
        assert faults(killed._CHECKS, script, outcome("v", killed.VICTIM, did="killed", prefill=0, status=500)) == []

    def test_an_answer_is_a_fault(self) -> None:
        script = chunks(Script(), "v", killed.CHUNKS * disconnected.CHUNK)
        found = faults(killed._CHECKS, script, outcome("v", killed.VICTIM, did="killed", prefill=0))
        assert found == ["decode answered 200 to v"]

    def test_a_prompt_that_was_through_is_a_fault(self) -> None:
        script = chunks(Script(), "v", 896)
        found = faults(killed._CHECKS, script, outcome("v", killed.VICTIM, did="killed", prefill=0, status=500))
        assert found == ["prefill computed 896 of 896 tokens before it was killed"]
