"""Numbered SQL migrations: each runs once in a database, in order, and is noted in the table `schema_migrations`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FOLDER = Path(__file__).parent / "migrations"
_NAME = re.compile(r"(?P<version>\d{4})_(?P<name>\w+)\.sql")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


class MigrationError(Exception):
    """The store and the code do not fit together: what was found, and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the folder `migrations`."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Digest of its statements: a comment may change, what has run may not."""
        return hashlib.sha256("\n".join(self.statements).encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        """Its statements, without comments. Each ends with `;` at the end of a line."""
        return [part.strip() for part in re.split(r";[ \t]*(?:\n|$)", _COMMENT.sub("", self.text)) if part.strip()]


class Database(Protocol):
    """What a migration runs on."""

    def rows(self, sql: str) -> list[dict[str, object]]:
        """Run a SELECT; one dict a row."""
        ...

    def command(self, sql: str) -> None:
        """Run one statement that returns nothing."""
        ...


def load_migrations(folder: Path = FOLDER) -> list[Migration]:
    """Every migration, by number. Raises MigrationError if numbers do not run 1, 2, 3, ... or a name is odd."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{path.name} is not named like 0003_what_it_does.sql")
        found.append(Migration(int(match["version"]), match["name"], path.read_text(encoding="utf-8")))
    numbers = [migration.version for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise MigrationError(f"migrations must be numbered 1, 2, 3, ... without a gap, and these are {numbers}")
    return found


def migrate(database: Database, migrations: list[Migration]) -> list[Migration]:
    """Run those that have not run here yet, in order, and return them.

    Raises MigrationError, before anything runs, for a store that newer code has written, or in which a migration ran
    with other statements than the file has now. One that was cut off runs again from its start, so every statement of
    a migration must be one that can (`IF NOT EXISTS`).
    """
    database.command(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version UInt32, name String, checksum String, "
        "applied_at DateTime64(3, 'UTC') DEFAULT now64(3)) ENGINE = MergeTree ORDER BY version "
        "SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
    )
    applied = {row["version"]: row for row in database.rows("SELECT version, name, checksum FROM schema_migrations")}
    known = {migration.version: migration for migration in migrations}
    for version, row in applied.items():
        if version not in known:
            raise MigrationError(
                f"the store is newer than this pagewitness: it has migration {version} ({row['name']}), and this "
                f"version ends at {max(known, default=0)}. Use the version that wrote it, or a newer one."
            )
        if row["checksum"] != known[version].checksum:
            raise MigrationError(
                f"migration {version} ({row['name']}) ran in this store with other statements than this version has. "
                "Use the version that wrote the store, or a new data directory."
            )
    pending = [migration for migration in migrations if migration.version not in applied]
    for migration in pending:
        for statement in migration.statements:
            database.command(statement)
        database.command(
            "INSERT INTO schema_migrations (version, name, checksum) "
            f"VALUES ({migration.version}, '{migration.name}', '{migration.checksum}')"
        )
    return pending
