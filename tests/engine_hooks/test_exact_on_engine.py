"""The exact tier on the real engine: page instances and steps add up to what the legs say of themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pytest

from engine_hooks.facts import Fact
from tests.engine_hooks.sglang_plugin.on_engine import ROLES, Run
from tests.engine_hooks.sglang_plugin.support import word_of

pytestmark = [pytest.mark.engine, pytest.mark.timeout(500)]

PAGE = 16


@pytest.fixture
def run(runs: Callable[[str], Run]) -> Run:
    return runs("0.5.19")


def named(fact: Fact) -> dict[str, Any]:
    return {name.removeprefix("pagewitness."): value for name, value in fact.values.items()}


def every(run: Run, role: str, kind: str) -> Iterator[tuple[Fact, dict[str, Any]]]:
    for fact in run.facts[role]:
        if word_of(fact).partition(":")[0] == kind:
            yield fact, named(fact)


@pytest.mark.parametrize("role", ROLES)
def test_a_page_instance_is_acquired_once_and_freed_once_and_in_that_order(run: Run, role: str) -> None:
    """A generation is given once. Between two acquisitions of a page lies its free, which names the same instance."""
    life: dict[int, list[tuple[int, str, int]]] = {}
    for kind in ("acquire", "free"):
        for fact, said in every(run, role, kind):
            for page, generation in zip(said["pages"], said["page.generation"], strict=True):
                life.setdefault(page, []).append((fact.seq, kind, generation))
    assert life
    for events in life.values():
        events.sort()
        assert [kind for _, kind, _ in events] == ["acquire", "free"] * (len(events) // 2) + ["acquire"] * (
            len(events) % 2
        )
        for generation, of_one in groupby(events, key=lambda event: event[2]):
            assert [kind for _, kind, _ in of_one] in (["acquire", "free"], ["acquire"]), generation
        assert [generation for _, kind, generation in events if kind == "acquire"] == list(
            range(1, len(events) // 2 + len(events) % 2 + 1)
        )


@pytest.mark.parametrize("role", ROLES)
def test_a_leg_gave_up_the_pages_that_it_had_acquired_and_those_of_its_prefix(run: Run, role: str) -> None:
    for facts in run.legs(role).values():
        acquired = [page for fact in facts if word_of(fact).startswith("acquire") for page in named(fact)["pages"]]
        (release,) = [named(fact) for fact in facts if word_of(fact).startswith("release")]
        held, prefix = list(release["pages"]), release["prefix.tokens"] // PAGE
        assert held[prefix:] == acquired
        assert named(facts[-1])["acquired.pages"] == len(acquired)


@pytest.mark.parametrize("role", ROLES)
def test_an_acquisition_says_where_in_the_prompt_its_pages_stand(run: Run, role: str) -> None:
    for facts in run.legs(role).values():
        (release,) = [named(fact) for fact in facts if word_of(fact).startswith("release")]
        for fact in facts:
            if word_of(fact).startswith("acquire"):
                said = named(fact)
                first = said["acquired.from"] // PAGE
                assert list(release["pages"])[first : first + len(said["pages"])] == list(said["pages"])


@pytest.mark.parametrize("role", ROLES)
def test_the_steps_that_name_a_legs_row_are_as_many_as_its_end_says(run: Run, role: str) -> None:
    """By row and generation, which the leg's own facts tie to it."""
    steps: Counter[tuple[int, int]] = Counter()
    for _, said in every(run, role, "step"):
        steps.update(zip(said["step.rows"], said["step.row_generations"], strict=True))
    total = 0
    for facts in run.legs(role).values():
        total += named(facts[-1])["steps"]
        rows = {(said["row"], said["row_generation"]) for fact in facts if "row_generation" in (said := named(fact))}
        for row in rows:
            assert steps[row] == named(facts[-1])["steps"]
    assert total == sum(steps.values())


def test_a_decode_step_reads_one_position_more_than_the_one_before(run: Run) -> None:
    by_row: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for _, said in every(run, "decode", "step"):
        rows = zip(said["step.rows"], said["step.row_generations"], said["step.starts"], said["step.ends"], strict=True)
        for row, generation, start, end in rows:
            by_row.setdefault((row, generation), []).append((start, end))
    assert by_row
    for steps in by_row.values():
        first = steps[0][0]
        assert steps == [(first + place, first + place + 1) for place in range(len(steps))]


def test_prefill_wrote_what_its_release_says_it_wrote(run: Run) -> None:
    for facts in run.legs("prefill").values():
        wrote = [named(fact) for fact in facts if word_of(fact).startswith("write")]
        (release,) = [named(fact) for fact in facts if word_of(fact).startswith("release")]
        covered = (wrote[0]["written.start"], wrote[-1]["written.end"])
        assert covered == (release["written.start"], release["written.end"])


def test_on_the_vulnerable_engine_nothing_wrote_the_pages_of_the_oversized_prompt(run: Run) -> None:
    """94 pages were acquired for the transfer, as instances of their own; prefill wrote one token position."""
    reserved = run.only("decode", "oversized", "acquire:transfer")
    assert len(reserved["pages"]) == 94
    assert (run.only("prefill", "oversized", "write:prefill")["written.end"]) == 1
