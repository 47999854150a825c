from __future__ import annotations

from datetime import UTC, datetime

import pytest

from detectors import scopes
from notify.answers import DEFAULT_SCOPES, SCOPES
from notify.errors import UsageError
from notify.question import Span, parse_scopes

NOON = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def test_scopes_are_those_of_detection_gravest_first() -> None:
    assert SCOPES == scopes.SCOPES


def test_without_a_choice_foreign_kv_of_others_and_of_nobody_is_listed() -> None:
    assert parse_scopes(None) == DEFAULT_SCOPES == ("cross_tenant", "unattributed")


def test_scopes_are_a_list_or_all() -> None:
    assert parse_scopes("no_writer, same_tenant") == ("same_tenant", "no_writer")
    assert parse_scopes("all") == SCOPES


@pytest.mark.parametrize("text", ["", ",", "everything", "cross_tenant,all"])
def test_an_unknown_scope_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match="cross_tenant, unattributed"):
        parse_scopes(text)


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(UsageError, match="window is empty"):
        Span(NOON, NOON)
