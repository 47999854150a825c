"""Stored verdicts for tests of the running service. One process a data directory, so they are stored before it starts:

python -m tests.support.scenarios NAME DATA_DIR
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from collector.store import open_store
from tests.repo.tree import ROOT
from tests.support.verdicts import VerdictBook

HOSTILE = "\x1b[2J\x1b[31m\u202eacme\u2066\r\n" + "=1+1 " + "wide 漢字 " * 40
"""A tenant's name that would clear a terminal, reverse a line, break a table and run in a spreadsheet."""

LEAK, SOURCE = "000000020000000200000002" + "00000002", "00000001" * 4
"""Ids of acme's affected response and of the response of zenith whose KV it read."""

_NEVER_JUDGED_AGAIN = datetime(2100, 1, 1, tzinfo=UTC)


def incident(book: VerdictBook) -> None:
    """acme received KV of zenith and of HOSTILE, and HOSTILE of acme; calm has nothing, unsure does not know."""
    book.leak("acme", "zenith")
    reader, _ = book.leak("acme", HOSTILE, derived=True, ended=None, tokens_delivered=None, http_status=None)
    book.finding(reader)
    book.leak(HOSTILE, "acme")
    book.response("acme", verdict="violation", scope="no_writer", no_writer_slots=16, foreign_slots=16)
    book.response("acme", verdict="unknown", reasons=["peer_not_seen", "rule_blind"])
    book.response("calm")
    book.response("unsure", verdict="unknown", reasons=["prefill_facts_dropped"])
    book.response("unattributed", verdict="pending", reasons=["decode_leg_running"])
    book.state(judged_at=_NEVER_JUDGED_AGAIN)


def calm(book: VerdictBook) -> None:
    """Two tenants, complete evidence, nothing wrong."""
    book.response("acme")
    book.response("zenith")
    book.state(judged_at=_NEVER_JUDGED_AGAIN)


SCENARIOS: dict[str, Callable[[VerdictBook], None]] = {"incident": incident, "calm": calm}


def store_scenario(name: str, data_dir: Path) -> None:
    """Store a scenario in a data directory that nobody has open, from a process of its own."""
    command = [sys.executable, "-m", "tests.support.scenarios", name, str(data_dir)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    with open_store(Path(sys.argv[2])) as store:
        SCENARIOS[sys.argv[1]](VerdictBook(store.handle()))
