"""The pages that repeat what the code says cannot say anything else, and leave nothing out."""

from __future__ import annotations

import re

import pytest

from docs.generate import FOLDER, PAGES
from docs.settings import documented
from engine_hooks.conventions import SPANS, attributes
from tests.repo.tree import ROOT, SHIPPED, files, python_files


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_span_and_attribute_is_on_the_evidence_page() -> None:
    page = (FOLDER / "evidence.md").read_text(encoding="utf-8")
    assert all(f"## {span.name}\n" in page for span in SPANS)
    assert all(f"`{name}`" in page for attribute in attributes() for name in attribute.wire_names)


def test_every_setting_that_code_or_a_page_names_is_documented() -> None:
    sources = [*python_files("engine_hooks", *SHIPPED), *(path for path in files() if path.suffix == ".md")]
    named = {
        name
        for path in sources
        for name in re.findall(r"\bPAGEWITNESS_[A-Z][A-Z_]*[A-Z]\b", (ROOT / path).read_text(encoding="utf-8"))
    }
    assert not named - documented()
