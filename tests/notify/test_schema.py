"""The documented shape of the answer cannot say anything else than the code, and leaves nothing out."""

from __future__ import annotations

import json
import re

import pytest

from notify.answers import SCOPES, DonorAnswer, DonorRow, Evidence, RecipientAnswer, RecipientRow, Shape
from notify.schema import as_text
from tests.repo.tree import ROOT

PAGE = (ROOT / "docs" / "api-affected.md").read_text(encoding="utf-8")
SCHEMA = ROOT / "docs" / "api-affected.schema.json"


def wire_names(shape: type[Shape]) -> set[str]:
    return {field.alias or name for name, field in shape.model_fields.items()}


def test_the_schema_file_is_made_from_the_shapes() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == as_text(), (
        "run `python -m notify.schema > docs/api-affected.schema.json`"
    )


@pytest.mark.parametrize("shape", [RecipientAnswer, DonorAnswer, RecipientRow, DonorRow, Evidence])
def test_the_page_explains_every_field(shape: type[Shape]) -> None:
    explained = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert not wire_names(shape) - explained


def test_the_page_explains_every_scope_gravest_first() -> None:
    assert (
        tuple(
            re.findall(
                r"^\| `([a-z_]+)` \| (?:another tenant's|nobody|the operator|another request)", PAGE, re.MULTILINE
            )
        )
        == SCOPES
    )


def test_what_a_reader_may_rely_on_is_required_and_versioned() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for name, shape in (("RecipientAnswer", RecipientAnswer), ("DonorAnswer", DonorAnswer)):
        declared = schema["$defs"][name]
        assert set(declared["required"]) == wire_names(shape)
        assert declared["properties"]["schema"]["const"] == "pagewitness.affected/1"
