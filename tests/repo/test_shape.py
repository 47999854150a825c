"""The shape of the tree: files of a few screens, packages that say what they are, links that lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.repo.tree import ROOT, SHIPPED, STAGES, files, python_files

LONGEST = 400
MIGRATIONS = Path("collector/store/migrations")
WRITTEN_BY_CODE = {MIGRATIONS / "0001_evidence.sql", *(path for path in files() if "_contract_" in path.name)}
"""Statements that `collector/store/schema.py` makes from the contract."""
CODE = {".py", ".sql", ".yaml", ".proto", ".sh"}
MARKDOWN = [path for path in files() if path.suffix == ".md"]


def test_no_file_of_code_is_longer_than_a_few_screens() -> None:
    written_by_people = (path for path in files() if path.suffix in CODE and path not in WRITTEN_BY_CODE)
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in written_by_people}
    assert not {str(path): length for path, length in lengths.items() if length > LONGEST}


@pytest.mark.parametrize("name", sorted({*STAGES, *SHIPPED}))
def test_every_package_says_what_it_is_for(name: str) -> None:
    path = ROOT / name / "__init__.py" if (ROOT / name).is_dir() else ROOT / f"{name}.py"
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", python_files("engine_hooks", *SHIPPED), ids=str)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert not source.strip() or ast.get_docstring(ast.parse(source))


def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", MARKDOWN, ids=str)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken
