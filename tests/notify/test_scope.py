"""No question about a tenant reaches the store without saying whose data it may see."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, cast

import pytest

from detectors.queries import Queries
from notify.scope import TenantScope
from notify.tenant_store import TABLES, ScopeRequiredError, TenantStore
from tests.repo.tree import ROOT, imports, python_files
from tests.support.otlp import Fact, fact
from tests.support.verdicts import KEYS, VerdictBook

ACME = TenantScope.of("acme", KEYS)


@pytest.mark.parametrize("scope", [None, "acme", (("k2", "00" * 16),), object()])
def test_a_query_without_a_scope_raises(handle: Queries, scope: Any) -> None:
    with pytest.raises(ScopeRequiredError, match="needs a TenantScope"):
        TenantStore(handle).rows(cast(TenantScope, scope), "SELECT * FROM tenant_responses")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM responses",
        "SELECT * FROM response_versions",
        "SELECT * FROM tenant_responses, foreign_ranges",
        "SELECT * FROM tenant_responses AS r JOIN findings AS f ON f.response_uid = r.response_uid",
        "SELECT * FROM pagewitness.responses",
        "SELECT * FROM system.tables",
        "SELECT * FROM tenant_responses WHERE response_uid IN (SELECT uid FROM evidence)",
        "SELECT 1",
    ],
)
def test_a_query_that_reaches_past_its_scope_raises(handle: Queries, sql: str) -> None:
    with pytest.raises(ScopeRequiredError, match="may read"):
        TenantStore(handle).rows(ACME, sql)


@pytest.mark.parametrize("pseudonyms", [(), (("", "00" * 16),), (("k1", ""),)])
def test_a_scope_of_nobody_cannot_be_made(pseudonyms: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ValueError, match="at least one pseudonym"):
        TenantScope(pseudonyms)


@pytest.mark.parametrize("table", sorted(name for name in TABLES if name.startswith("tenant_")))
def test_each_table_holds_rows_of_the_tenant_only(
    book: VerdictBook, handle: Queries, post: Callable[[Fact], None], table: str
) -> None:
    """Others lie in every table; nothing of them comes out."""
    reader, _ = book.leak("orion", "zenith")
    book.finding(reader, "orion")
    name, key = book.identity("orion")
    post(fact("pagewitness.response", tenant=name, tenant_key=key))
    assert TenantStore(handle).rows(ACME, f"SELECT * FROM {table}") == []


def test_what_is_known_of_everybody_says_of_nobody_who(book: VerdictBook, handle: Queries) -> None:
    reader, source = book.leak("orion", "zenith")
    (row, *_) = rows = TenantStore(handle).rows(ACME, "SELECT * FROM everyone_verdicts")
    assert len(rows) == 2
    assert sorted(row) == ["ended", "nobody", "reasons", "scope", "sign", "started", "unattributed_slots", "verdict"]
    assert not {reader, source} & {str(value) for each in rows for value in each.values()}


def test_only_operator_modules_read_the_store_without_a_tenant() -> None:
    """Their first line says so; no other module imports the store that needs no tenant."""
    importers = {
        path for path in python_files("notify") if "notify.operator_store" in imports(path) and path.stem != "app"
    }
    assert {path.stem for path in importers} == {"operator_view", "status", "incident_desk", "drafts", "totals"}
    for path in importers:
        assert "operator" in (ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or "")
