"""Lists of numbers: those that stand side by side have one length, and no number is one that the engine cannot have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collector.store import Store
from tests.collector.conftest import Rows
from tests.support.otlp import Fact, export

Made = Callable[..., Fact]
Rejects = Callable[[], dict[int | None, str]]

STEP = "pagewitness.page.step"
ACQUIRE = "pagewitness.page.acquire"
ROWS = "pagewitness.step.rows"
ROW_GENERATIONS = "pagewitness.step.row_generations"
STARTS = "pagewitness.step.starts"
ENDS = "pagewitness.step.ends"
GENERATION = "pagewitness.page.generation"


def test_a_step_says_what_each_row_of_its_batch_did(store: Store, made: Made, facts: Rows) -> None:
    sent = made(STEP, step_rows=[3, 0], step_row_generations=[8, 1], step_starts=[40, 7], step_ends=[41, 8])
    assert store.insert_otlp(export(sent)).stored == 1
    assert facts("step_rows, step_row_generations, step_starts, step_ends") == [
        {"step_rows": [3, 0], "step_row_generations": [8, 1], "step_starts": [40, 7], "step_ends": [41, 8]}
    ]


def test_an_engine_that_does_not_count_rows_leaves_their_generations_empty(store: Store, made: Made) -> None:
    sent = made(STEP, step_rows=[3, 0], step_row_generations=[], step_starts=[40, 7], step_ends=[41, 8])
    assert store.insert_otlp(export(sent)).stored == 1


@pytest.mark.parametrize(
    ("changed", "blamed"),
    [
        pytest.param({ROWS: [1, 2, 3]}, ROWS, id="more rows than anything else"),
        pytest.param({STARTS: [1]}, ROWS, id="fewer starts"),
        pytest.param({ENDS: [1, 2, 3]}, STARTS, id="more ends"),
        pytest.param({ROWS: [], ROW_GENERATIONS: []}, ENDS, id="no rows"),
        pytest.param({ROW_GENERATIONS: [1]}, ROW_GENERATIONS, id="fewer generations"),
        pytest.param({ROWS: [0, -1]}, ROWS, id="a negative row"),
        pytest.param({ENDS: [0, 2**31]}, ENDS, id="a position beyond int32"),
    ],
)
def test_a_step_whose_lists_do_not_fit_together_is_refused(
    changed: dict[str, Any], blamed: str, store: Store, made: Made, rejects: Rejects
) -> None:
    sent = made(STEP, step_rows=[3, 0], step_row_generations=[8, 1], step_starts=[40, 7], step_ends=[41, 8])
    assert store.insert_otlp(export(sent.but(extra=changed))).stored == 0
    assert rejects() == {1: f"bad_value:{blamed}"}


def test_generations_are_one_for_each_run_of_pages(store: Store, made: Made, facts: Rows) -> None:
    sent = made(ACQUIRE, pages=[5, 6, 7, 2], page_generation=[1, 1, 9, 4])
    assert store.insert_otlp(export(sent)).stored == 1
    assert facts("pages_start, pages_length, page_generation") == [
        {"pages_start": [5, 7, 2], "pages_length": [2, 1, 1], "page_generation": [1, 9, 4]}
    ]


@pytest.mark.parametrize("generations", [[1], [1, 9, 4, 4], [1, 9, -4], [1, 9, 2**31]])
def test_generations_that_do_not_fit_the_runs_are_refused(
    generations: list[int], store: Store, made: Made, rejects: Rejects
) -> None:
    sent = made(ACQUIRE, pages=[5, 6, 7, 2], page_generation=[1, 1, 9, 4])
    assert store.insert_otlp(export(sent.but(extra={GENERATION: generations}))).stored == 0
    assert rejects() == {1: f"bad_value:{GENERATION}"}


def test_generations_without_pages_are_refused(store: Store, made: Made, rejects: Rejects) -> None:
    sent = made("pagewitness.page.release", pages=[], extra={GENERATION: [1]})
    assert store.insert_otlp(export(sent)).stored == 0
    assert rejects() == {1: f"bad_value:{GENERATION}"}


def test_a_foreign_list_is_left_out_and_judges_nothing(store: Store, made: Made, facts: Rows, rejects: Rejects) -> None:
    sent = made(ACQUIRE, pages=[5], extra={"somebody.elses": [1, 2, 3], ROWS: [-1]})
    assert store.insert_otlp(export(sent)).stored == 1
    assert facts("pages_start, step_rows") == [{"pages_start": [5], "step_rows": []}]
    assert rejects() == {1: "unknown_attribute"}


@pytest.mark.parametrize("offset", [-(2**40), 0, 2**40])
def test_a_clock_offset_goes_both_ways(offset: int, store: Store, made: Made, facts: Rows) -> None:
    assert store.insert_otlp(export(made("pagewitness.emitter", clock_offset=offset, clock_error=5))).stored == 1
    assert facts("clock_offset, clock_error") == [{"clock_offset": offset, "clock_error": 5}]
