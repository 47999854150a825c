"""Migrations run once, in order, and a store that does not fit is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from collector.store import MigrationError
from collector.store.handle import Handle
from collector.store.migrate import Migration, load_migrations, migrate
from tests.support.stores import shared_data_dir

_numbers = count(1)

FIRST = Migration(
    1, "first", "-- a comment; with a semicolon\nCREATE TABLE IF NOT EXISTS a (x Int8) ENGINE = Memory;\n"
)
SECOND = Migration(2, "second", "INSERT INTO a VALUES (1);\nINSERT INTO a VALUES (2);\n")


@pytest.fixture
def database(store: object) -> Iterator[Handle]:
    """An empty database in the directory that this process has open."""
    name = f"migrations_{next(_numbers)}"
    default = Handle(shared_data_dir(), "default")
    default.command(f"CREATE DATABASE {name}")
    handle = Handle(shared_data_dir(), name)
    yield handle
    handle.close()
    default.close()


def test_pending_migrations_run_in_order_and_once(database: Handle) -> None:
    assert migrate(database, [FIRST]) == [FIRST]
    assert migrate(database, [FIRST, SECOND]) == [SECOND]
    assert migrate(database, [FIRST, SECOND]) == []
    assert database.query("SELECT x FROM a ORDER BY x") == [(1,), (2,)]


def test_what_ran_is_noted(database: Handle) -> None:
    migrate(database, [FIRST, SECOND])
    assert database.query("SELECT version, name FROM schema_migrations ORDER BY version") == [
        (1, "first"),
        (2, "second"),
    ]


def test_a_migration_that_was_cut_off_runs_again(database: Handle) -> None:
    broken = Migration(1, "first", FIRST.text + "SELECT nonsense;\n")
    with pytest.raises(Exception, match="nonsense"):
        migrate(database, [broken])
    assert migrate(database, [FIRST]) == [FIRST]


def test_a_store_of_newer_code_is_refused_before_anything_runs(database: Handle) -> None:
    migrate(database, [FIRST, SECOND])
    with pytest.raises(MigrationError, match=r"it has migration 2 \(second\), and this version ends at 1"):
        migrate(database, [FIRST])


def test_a_migration_that_says_something_else_now_is_refused(database: Handle) -> None:
    migrate(database, [FIRST])
    changed = Migration(1, "first", FIRST.text.replace("Int8", "Int16"))
    with pytest.raises(MigrationError, match=r"migration 1 \(first\) ran in this store with other statements"):
        migrate(database, [changed, SECOND])
    assert database.query("SELECT count() FROM a") == [(0,)]


def test_a_comment_may_change(database: Handle) -> None:
    migrate(database, [FIRST])
    assert migrate(database, [Migration(1, "first", "-- said better\n" + FIRST.text)]) == []


@pytest.mark.parametrize(
    ("version", "checksum"),
    [
        (1, "9779d3be9596f20770367dfe5d8bd8ab78c0f78ed321fc2d9b4f65b8a266d706"),
        (2, "370f12bbfbebc47684d92756663df442528dab68a2744904bc7770ec7b17102a"),
    ],
)
def test_a_migration_that_ran_in_a_store_somewhere_never_changes(version: int, checksum: str) -> None:
    assert load_migrations()[version - 1].checksum == checksum


def test_the_migrations_of_this_version_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in load_migrations()][:2] == [1, 2]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["0001_a.sql", "0003_b.sql"], "without a gap"),
        (["0001_a.sql", "0001_b.sql"], "without a gap"),
        (["0002_a.sql"], "without a gap"),
        (["first.sql"], "not named like"),
    ],
)
def test_a_folder_of_migrations_that_makes_no_sense_is_refused(names: list[str], words: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(MigrationError, match=words):
        load_migrations(tmp_path)
