"""Opening and closing: one process a directory, and what was acknowledged is there afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collector.store import MigrationError, Store, StoreBusy, open_store
from collector.store.handle import Handle
from collector.store.lock import NAME, DirectoryLock
from tests.support.otlp import export, fact
from tests.support.stores import shared_data_dir

READ = "pagewitness.page.read"

OPEN = """
import sys
from pathlib import Path
from collector.store import StoreBusy, open_store
try:
    open_store(Path(sys.argv[1])).close()
except StoreBusy as busy:
    print(busy)
"""

INSERT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from collector.store import open_store
from tests.support.otlp import export, fact
store = open_store(Path(sys.argv[1]))
for seq in range(1, 4):
    receipt = store.insert_otlp(export(fact("pagewitness.page.read", seq=seq)))
    store.claims.claim("host1/a", "b0" * 16, "token-1")
    print(receipt.stored, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

COUNT = """
import json, sys
from pathlib import Path
from collector.store import open_store
with open_store(Path(sys.argv[1])) as store:
    seqs = [seq for (seq,) in store.handle().query("SELECT seq FROM facts ORDER BY seq")]
    print(json.dumps([seqs, store.claims.claim("host1/a", "b0" * 16, "token-2")]))
"""


def run(script: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, str(data_dir)], capture_output=True, text=True, timeout=100, check=False
    )


def test_another_process_is_told_who_has_the_store_open(store: Store) -> None:
    done = run(OPEN, store.data_dir)
    assert done.returncode == 0, done.stderr
    assert f"{store.data_dir} is in use by process {os.getpid()} since 20" in done.stdout
    assert Path(sys.orig_argv[0]).name in done.stdout
    assert "stop it, or choose another data directory" in done.stdout


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path) -> None:
    killed = run(INSERT_AND_DIE, tmp_path)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "1\n1\n1\n"), killed.stderr
    counted = run(COUNT, tmp_path)
    assert counted.returncode == 0, counted.stderr
    assert json.loads(counted.stdout) == [[1, 2, 3], "token-1"]


@pytest.mark.parametrize("table", ["evidence", "evidence_rejects", "claims", "contradictions", "schema_migrations"])
def test_an_insert_is_on_the_disk_when_it_returns(table: str, store: Store) -> None:
    ((made,),) = store.handle().query(f"SHOW CREATE TABLE {table}")
    assert "fsync_after_insert = 1, fsync_part_directory = 1" in made


def test_a_database_is_open_once_in_a_process(store: Store) -> None:
    with pytest.raises(StoreBusy, match="open already"):
        open_store(store.data_dir, store.database)


def test_a_process_opens_one_directory(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreBusy, match="one directory a process"):
        open_store(tmp_path)


def test_a_store_that_was_closed_opens_again_with_what_it_had(store: Store) -> None:
    first = open_store(store.data_dir, "reopened")
    first.insert_otlp(export(fact(READ)))
    first.close()
    with open_store(store.data_dir, "reopened") as again:
        assert again.handle().query("SELECT seq FROM facts") == [(1,)]


def test_closing_twice_does_nothing_to_who_opened_it_since(store: Store) -> None:
    first = open_store(store.data_dir, "closed_twice")
    first.close()
    with open_store(store.data_dir, "closed_twice") as second:
        first.close()
        second.insert_otlp(export(fact(READ)))


def test_time_of_receipt_goes_on_from_what_is_stored(store: Store) -> None:
    def newest(opened: Store) -> int:
        ((at,),) = opened.handle().query("SELECT max(toUnixTimestamp64Nano(received_at)) FROM evidence")
        return int(at)

    far_future = 2_000_000_000_000_000_000
    with open_store(store.data_dir, "clock") as opened:
        opened.handle().command(
            f"INSERT INTO evidence (received_at, seq) VALUES (fromUnixTimestamp64Nano({far_future}), 1)"
        )
    with open_store(store.data_dir, "clock") as opened:
        opened.insert_otlp(export(fact(READ)))
        assert newest(opened) == far_future + 1


def test_a_store_of_a_newer_version_is_refused_and_let_go(store: Store) -> None:
    with open_store(store.data_dir, "newer") as opened:
        opened.handle().command("INSERT INTO schema_migrations (version, name, checksum) VALUES (99, 'later', 'x')")
    for _ in range(2):  # the second would be StoreBusy if the first had kept it
        with pytest.raises(MigrationError, match=r"newer than this pagewitness: it has migration 99 \(later\)"):
            open_store(store.data_dir, "newer")


def test_a_lock_is_free_when_it_was_released(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    DirectoryLock(tmp_path).release()
    assert (tmp_path / NAME).read_text() == ""


def test_a_lock_that_does_not_say_who_holds_it_is_a_lock_still(tmp_path: Path) -> None:
    held = DirectoryLock(tmp_path)
    (tmp_path / NAME).write_text("")
    with pytest.raises(StoreBusy, match="a process that has not said who it is"):
        DirectoryLock(tmp_path)
    held.release()


def test_the_data_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    data_dir = tmp_path / "new"
    assert run(COUNT, data_dir).returncode == 0
    assert data_dir.stat().st_mode & 0o077 == 0


def test_rows_are_by_name_and_times_in_utc() -> None:
    handle = Handle(shared_data_dir(), "default")
    (row,) = handle.rows("SELECT toDateTime64({at:String}, 3, 'UTC') AS at", {"at": "2026-09-01 00:00:00.5"})
    assert row["at"].isoformat() == "2026-09-01T00:00:00.500000+00:00"
    handle.close()
