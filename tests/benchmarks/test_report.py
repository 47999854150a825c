"""How figures become a page: ratios to the first row and to the goal, and a table that can be read as it is."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.report import Row, Section, keeping, page, with_section


def rows_of(rows: Mapping[str, Row], goals: Mapping[str, float] | None = None) -> list[list[str]]:
    """Cells of the section's table, by line, without the rule."""
    text = page([Section("one", "One", "What it is.", rows, goals or {})], {"date": "today"})
    lines = [line for line in text.partition("## One")[2].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def test_each_row_stands_beside_its_ratio_to_the_first() -> None:
    assert rows_of({"plain": 2.0, "with pages": 5.0}) == [
        ["", "value", "to first"],
        ["plain", "2", "1.00 x"],
        ["with pages", "5", "2.50 x"],
    ]


def test_the_ratio_is_of_the_first_column() -> None:
    assert rows_of({"a": {"p50 (us)": 1.0, "p99 (us)": 8.0}, "b": {"p50 (us)": 3.0, "p99 (us)": 4.0}})[2] == [
        "b",
        "3",
        "4",
        "3.00 x",
    ]


def test_a_row_without_a_column_leaves_it_empty() -> None:
    assert rows_of({"a": {"spans/s": 1000.0}, "b": {"spans/s": 500.0, "batches": 2.0}})[1] == [
        "a",
        "1,000",
        "",
        "1.00 x",
    ]


def test_a_table_with_ratios_of_its_own_gets_no_further_one() -> None:
    assert rows_of({"a": {"us": 3.0, "to floor": 1.5}}) == [["", "us", "to floor"], ["a", "3", "1.5"]]


def test_a_goal_stands_beside_what_was_reached() -> None:
    header, first, second = rows_of({"plain": 1.5, "other": 3.0}, goals={"plain": 2.0})
    assert header[-1] == "to goal"
    assert first[-1] == "0.75 x of 2"
    assert second[-1] == ""


def test_the_page_says_what_it_was_measured_on() -> None:
    text = page([Section("one", "One", "", {"a": 1.0})], {"processor": "fast one", "date": "2026-10-01 10:00 UTC"})
    assert "fast one" in text
    assert "2026-10-01 10:00 UTC" in text


def a_page(**sections: float) -> str:
    made = [Section(title.lower(), title, f"What {title} is.", {"row": value}) for title, value in sections.items()]
    return page(made, {"date": "today"})


def test_a_section_takes_the_place_of_the_one_with_its_title() -> None:
    new = Section("one", "One", "What One is.", {"row": 7.0})
    assert with_section(a_page(One=1.0, Two=2.0), new) == a_page(One=7.0, Two=2.0)


def test_a_section_that_is_new_comes_last() -> None:
    new = Section("two", "Two", "What Two is.", {"row": 2.0})
    assert with_section(a_page(One=1.0), new) == a_page(One=1.0, Two=2.0)


def test_a_page_that_is_made_anew_keeps_the_sections_that_it_is_asked_to() -> None:
    old = a_page(One=1.0, Two=2.0, Three=3.0)
    assert keeping(a_page(One=7.0), old, ["Three", "Four"]) == a_page(One=7.0, Three=3.0)
