"""What a frozen question needs of the store: no version is ever lost, and a pass says where it ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

from collector.store.handle import Handle
from collector.store.migrate import Migration, load_migrations, migrate
from detectors.runner import Runner
from notify.answers import SCOPES
from notify.exit_codes import ExitCode
from notify.incidents.incident_desk import IncidentDesk
from tests.notify.incident_fixtures import change
from tests.support.cases import load_case
from tests.support.stores import shared_data_dir
from tests.support.verdicts import VerdictBook

CASE = Path(__file__).parents[2] / "detectors" / "rules" / "read_unwritten_page" / "cases" / "oversized_prompt.yaml"
STORY: dict[str, str] = {"from": "2026-09-01", "to": "2026-11-01"}
_numbers = count(1)


def before_incidents() -> tuple[Handle, Migration]:
    """A database as it was before the migration that brought incidents, and that migration."""
    name = f"incidents_{next(_numbers)}"
    default = Handle(shared_data_dir(), "default")
    default.command(f"CREATE DATABASE {name}")
    default.close()
    handle = Handle(shared_data_dir(), name)
    known = load_migrations()
    migrate(handle, known[:4])
    return handle, known[4]


def versions(handle: Handle, table: str = "response_versions") -> list[int]:
    return [row["version"] for row in handle.rows(f"SELECT version FROM {table} ORDER BY version")]


def test_a_merge_drops_no_version(handle: Handle, book: VerdictBook) -> None:
    uid = book.response("acme", verdict="pending")
    book.response("acme", uid=uid)
    book.finding(uid, finding_id="f" * 32)
    book.finding(uid, finding_id="f" * 32, retracted=True)
    for table in ("response_versions", "finding_versions"):
        handle.command(f"OPTIMIZE TABLE {table} FINAL")
        assert len(versions(handle, table)) == 2
    assert [row["verdict"] for row in handle.rows("SELECT verdict FROM responses")] == ["clean"]
    assert handle.rows("SELECT * FROM findings") == []


def test_the_migration_can_be_cut_off_anywhere_and_keeps_what_was_judged(opened: object) -> None:
    handle, migration = before_incidents()
    book = VerdictBook(handle, settled=False)
    uid = book.response("acme", verdict="pending")
    book.finding(uid)
    book.state()
    stood = versions(handle), versions(handle, "finding_versions")
    for place in range(1, len(migration.statements)):
        for statement in migration.statements[:place]:
            handle.command(statement)
    migrate(handle, load_migrations())
    assert (versions(handle), versions(handle, "finding_versions")) == stood
    assert handle.rows("SELECT DISTINCT version FROM detection_ends") == [{"version": max(stood[0] + stood[1])}]
    book.response("acme", uid=uid)
    handle.command("OPTIMIZE TABLE response_versions FINAL")
    assert len(versions(handle)) == 2
    handle.close()


def test_a_pass_notes_the_newest_version_that_stood_when_it_ended(handle: Handle, book: VerdictBook) -> None:
    uid = book.response("acme")
    book.state()
    book.finding(uid)  # newer than every response
    book.state()
    book.response("acme")  # of a pass that is under way
    newest = handle.rows("SELECT version FROM detection_ends ORDER BY judged_at DESC LIMIT 1")
    assert newest == [{"version": max(versions(handle, "finding_versions"))}]


def test_real_detection_is_frozen_and_later_evidence_waits_for_a_revision(
    handle: Handle, post: Callable[..., None], incidents: IncidentDesk
) -> None:
    """The whole way: facts, a pass, an incident; more facts, a pass, the same answer; then a revision."""
    story = load_case(CASE)
    late = [one for one in story.facts if one.span == "pagewitness.page.read"]
    post(*(one for one in story.facts if one not in late))
    Runner(handle).run_once()
    incidents.define("story", change(**STORY, scopes=[*SCOPES]))
    first = incidents.affected("story")
    assert first.affected == 0, "nothing was seen to be read yet"
    post(*late)
    Runner(handle).run_once()
    assert incidents.affected("story") == first
    incidents.define("story", change(as_of="now"))
    second = incidents.affected("story")
    assert (second.affected, second.exit_code) == (1, ExitCode.FOUND)
    assert {row.response_id for row in second.responses} == {story.uids["d1"]}
    assert second.incident.as_of.cursor > first.incident.as_of.cursor
    assert second.digest != first.digest
