"""A store that was filled before there were tables of newest rows answers the same after, and a cut migration too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from collector.store import Store, open_store
from collector.store.handle import Handle
from collector.store.migrate import load_migrations, migrate
from collector.store.writer import EvidenceWriter
from tests.support.otlp import export, fact
from tests.support.stores import shared_data_dir
from tests.support.verdicts import START, VerdictBook

NEWEST = 6
ANSWERS = (
    "SELECT * FROM responses ORDER BY response_uid",
    "SELECT * FROM findings ORDER BY finding_id",
    "SELECT * FROM foreign_ranges ORDER BY ALL",
)
_numbers = count(1)


@pytest.fixture
def old(store: Store) -> Iterator[tuple[str, Handle]]:
    """A database as the migration before left it. (`store` keeps the directory open.)"""
    name = f"newest_{next(_numbers)}"
    default = Handle(shared_data_dir(), "default")
    default.command(f"CREATE DATABASE {name}")
    default.close()
    handle = Handle(shared_data_dir(), name)
    migrate(handle, load_migrations()[: NEWEST - 1])
    yield name, handle
    handle.close()


def fill(handle: Handle) -> VerdictBook:
    """Verdicts of every kind, of which some had others before, and a fact of a tenant."""
    book = VerdictBook(handle, settled=False)
    reader, source = book.leak("acme", "zenith")
    book.response("acme", uid=source, verdict="retired")
    turned = book.response("orion", verdict="pending", started=START)
    book.response("acme", uid=turned, verdict="unknown")
    gone, _ = book.leak("orion", "zenith")
    book.response("orion", uid=gone)  # it turned out to be clean, so what it read does not count
    for finding, retracted in (("a" * 32, False), ("b" * 32, False), ("b" * 32, True)):
        book.finding(reader, finding_id=finding, retracted=retracted)
    EvidenceWriter(handle).insert([export(fact("pagewitness.response", tenant="e" * 32, tenant_key="k2"))])
    return book


def test_it_answers_the_same_as_before(old: tuple[str, Handle]) -> None:
    name, handle = old
    fill(handle)
    before = [handle.rows(sql) for sql in ANSWERS]
    assert [len(rows) for rows in before] == [4, 1, 1]
    with open_store(shared_data_dir(), name) as opened:
        upgraded = opened.handle()
        assert [upgraded.rows(sql) for sql in ANSWERS] == before
        counts = "SELECT verdict, toInt64({}) AS n FROM {} GROUP BY verdict HAVING n != 0 ORDER BY verdict"
        signed = upgraded.rows(counts.format("sum(sign)", "newest_responses"))
        assert signed == upgraded.rows(counts.format("count()", "responses"))
        heard = upgraded.rows("SELECT tenant_key, tenant FROM tenants_heard")
        assert heard == [{"tenant_key": "k2", "tenant": "e" * 32}]


def test_it_can_be_cut_off_anywhere_and_run_again(old: tuple[str, Handle]) -> None:
    _, handle = old
    fill(handle)
    before = [handle.rows(sql) for sql in ANSWERS]
    statements = load_migrations()[NEWEST - 1].statements
    for place in range(1, len(statements), 3):
        for statement in statements[:place]:
            handle.command(statement)
    migrate(handle, load_migrations())
    assert [handle.rows(sql) for sql in ANSWERS] == before
    assert handle.rows("SELECT count() AS n FROM donated_range_versions FINAL") == [{"n": 2}]
    (heard,) = handle.rows("SELECT min(h.first) = max(h.last) AS same, count() AS n FROM tenants_heard AS h FINAL")
    assert heard == {"same": 1, "n": 1}


def test_what_is_judged_after_the_upgrade_stands_in_place_of_what_stood_before(old: tuple[str, Handle]) -> None:
    name, handle = old
    fill(handle)
    with open_store(shared_data_dir(), name) as opened:
        upgraded = opened.handle()
        (unknown,) = upgraded.rows("SELECT response_uid FROM responses WHERE verdict = 'unknown'")
        later = VerdictBook(upgraded)
        for _ in range(20):  # versions above those of before
            later.response("calm")
        later.response("zenith", uid=unknown["response_uid"])
        rows = upgraded.rows(
            "SELECT verdict FROM responses WHERE response_uid = {uid:String}", {"uid": unknown["response_uid"]}
        )
        assert rows == [{"verdict": "clean"}]
        assert upgraded.rows("SELECT sum(sign) AS n FROM newest_responses WHERE verdict = 'unknown'") == [{"n": 0}]
