from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from notify.render.plain import fit, printable


def test_controls_and_escapes_are_shown_not_sent() -> None:
    assert printable("a\x1b[31m\r\nb\x00") == "a\\x1b[31m\\r\\nb\\x00"


def test_marks_that_reorder_text_are_shown_not_sent() -> None:
    assert printable("abc\u202etxt") == "abc\\u202etxt"


def test_letters_of_every_script_stay() -> None:
    assert printable("שלום Ünïcode 漢字") == "שלום Ünïcode 漢字"


def test_a_tower_of_combining_marks_is_cut_down() -> None:
    assert len(printable("e" + "\u0301" * 100)) < 5


def test_text_is_cut_by_terminal_cells_with_an_ellipsis() -> None:
    assert fit("x" * 300, 10) == "x" * 9 + "…"
    assert cell_len(fit("漢" * 300, 10)) <= 10
    assert fit("short", 10) == "short"


@given(st.text(st.characters(), max_size=400), st.integers(4, 80))
def test_nothing_printed_controls_a_terminal_or_runs_over(text: str, cells: int) -> None:
    shown = fit(text, cells)
    assert cell_len(shown) <= cells
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
