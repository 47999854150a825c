"""Five thousand requests on the real engine, and then its death: memory stays bounded, and no recorded fact is lost.

The real agent and the real service. The agent is stopped for a moment before the engine is killed, so that facts are in
the rings when it dies, and nowhere else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.facts import Fact
from lab.engine.agent_process import AgentProcess
from lab.engine.client import Client, Sent
from lab.engine.namespace import Namespace
from lab.engine.pair import Pair
from lab.engine.paths import REPOSITORY
from lab.engine.progress import say_nothing
from lab.engine.servers import EMITTER_PREFIX, PairSettings, RunFolder
from lab.engine.traffic import room_of
from lab.service import ServiceProcess
from tests.engine_hooks.sglang_plugin.on_engine import ROLES, salt_of
from tests.engine_hooks.support import facts_in

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(1200)]

VERSION = "0.5.19"
REQUESTS, WARM = 5_000, 1_000
AT_ONCE = 8
MOST_BYTES_A_REQUEST = 1_024
"""Private memory that a scheduler may gain for each request past the first thousand. State of one leg that stays behind
takes more."""


@dataclass
class Endured:
    """What was seen. Bytes are private memory of each role's scheduler after so many requests."""

    statuses: list[tuple[int, int]] = field(default_factory=list)
    memory: dict[int, dict[str, int]] = field(default_factory=dict)
    left: dict[str, list[Fact]] = field(default_factory=dict)  # boot -> facts in its ring when the engine was killed
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)  # boot -> what the store has of it


@pytest.fixture(scope="module")
def endured(tmp_path_factory: pytest.TempPathFactory) -> Endured:
    folder = tmp_path_factory.mktemp("endured")
    run, found = RunFolder(folder / "run"), Endured()
    run.make()
    with ServiceProcess(folder / "data", detect_every=300.0) as service:
        token = service.mint(EMITTER_PREFIX)
        with AgentProcess(run, service.file.url, token) as agent:
            with Pair(PairSettings(VERSION), run, say=say_nothing) as pair:
                client = pair.client()
                sent = 0
                for upto in (WARM, REQUESTS):
                    found.statuses += ask_many(client, range(sent, upto))
                    found.memory[upto] = {role: private_bytes(pid) for role, pid in schedulers(pair.namespace).items()}
                    sent = upto
                os.kill(agent.pid, signal.SIGSTOP)
                kill_at_work(client, pair.namespace)
                found.left = rings_of(run, folder / "copies")
                os.kill(agent.pid, signal.SIGCONT)
            agent.wait_drained()
            agent.stop()
    found.stored = stored(folder / "data")
    return found


def ask(client: Client, number: int) -> Sent:
    """A short prompt of its own, and one token as the answer."""
    rid = f"endure-{number:06d}"
    sampling = {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True}
    body = {"rid": rid, "text": f"{number:06d} the fox", "cache_salt": salt_of("acme"), "sampling_params": sampling}
    return client.send(body, room=room_of(rid), timeout=120.0)


def ask_many(client: Client, numbers: range) -> list[tuple[int, int]]:
    """All of them, a few at once; what both nodes answered to each."""
    answers: list[tuple[int, int]] = []
    waiting: deque[Sent] = deque()
    for number in numbers:
        waiting.append(ask(client, number))
        if len(waiting) >= AT_ONCE:
            answers.append(statuses(waiting.popleft()))
    return answers + [statuses(one) for one in waiting]


def statuses(sent: Sent) -> tuple[int, int]:
    both = sent.result()
    return both.prefill.status, both.decode.status


def kill_at_work(client: Client, namespace: Namespace) -> None:
    """`kill -9` both schedulers while they work on requests, and wait until they are gone."""
    for number in range(40):
        ask(client, REQUESTS + number)
    time.sleep(0.5)
    pids = list(schedulers(namespace).values())
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 20.0
    while any(map(runs, pids)):
        assert time.monotonic() < deadline, "a scheduler survived SIGKILL"
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Whether a process is there, and more than a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def schedulers(namespace: Namespace) -> dict[str, int]:
    """The scheduler process of each role, which holds that role's ring open."""
    found = {}
    for pid in namespace.pids():
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
        match = re.search(r"\+(prefill|decode)-[^/]*\.ring", maps)
        if match:
            found[match[1]] = pid
    assert sorted(found) == sorted(ROLES)
    return found


def private_bytes(pid: int) -> int:
    """Memory of a process that no file stands behind: the ring is not in it."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) * 1024


def rings_of(run: RunFolder, copies: Path) -> dict[str, list[Fact]]:
    """Facts in each ring that no receiver has acknowledged yet, by boot; read from a copy."""
    copies.mkdir()
    found = {}
    for ring in run.rings.glob("*.ring"):
        copy = Path(shutil.copy(ring, copies))
        found[re.findall(r"-([0-9a-f]{32})\.ring$", ring.name)[0]] = facts_in(copy)
    return found


_QUERY = """
import json, sys
from pathlib import Path
from collector.store import open_store

with open_store(Path(sys.argv[1])) as store:
    handle = store.handle()
    boots = {}
    for boot, facts, newest, contents in handle.query(
        "SELECT boot, count(), max(seq), max(contents) FROM facts WHERE span != 'pagewitness.emitter' GROUP BY boot"
    ):
        boots[boot] = {"facts": facts, "newest": newest, "contents": contents, "closes": [], "newest_facts": []}
    words = "SELECT DISTINCT subject_boot, close FROM facts WHERE span = 'pagewitness.emitter'"
    for boot, close in handle.query(words):
        boots[boot]["closes"].append(close)
    for boot in boots:
        boots[boot]["newest_facts"] = handle.query(
            "SELECT seq, span, uid, leg_ordinal FROM facts WHERE boot = {boot:String}"
            " AND span != 'pagewitness.emitter' ORDER BY seq DESC LIMIT 2000",
            {"boot": boot},
        )
print(json.dumps(boots))
"""


def stored(data_dir: Path) -> dict[str, dict[str, Any]]:
    """What the store has of each boot; asked in a process of its own, because a process opens one store."""
    done = subprocess.run(
        [sys.executable, "-c", _QUERY, str(data_dir)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def test_all_were_answered(endured: Endured) -> None:
    assert set(endured.statuses) == {(200, 200)}
    assert len(endured.statuses) == REQUESTS


@pytest.mark.parametrize("role", ROLES)
def test_a_schedulers_memory_is_bounded(role: str, endured: Endured) -> None:
    gained = endured.memory[REQUESTS][role] - endured.memory[WARM][role]
    assert gained < MOST_BYTES_A_REQUEST * (REQUESTS - WARM)


def test_facts_were_in_the_rings_and_nowhere_else_when_the_engine_was_killed(endured: Endured) -> None:
    assert len(endured.left) == len(ROLES)
    assert all(endured.left.values())


def test_every_fact_recorded_before_is_in_the_store(endured: Endured) -> None:
    for boot, facts in endured.left.items():
        newest = max(fact.seq for fact in facts)
        there = endured.stored[boot]
        assert (there["facts"], there["newest"], there["contents"]) == (newest, newest, 1)


def test_the_facts_that_were_left_in_a_ring_came_as_they_were(endured: Endured) -> None:
    for boot, facts in endured.left.items():
        there = {seq: (span, uid, ordinal) for seq, span, uid, ordinal in endured.stored[boot]["newest_facts"]}
        for fact in facts:
            span, uid, ordinal = there[fact.seq]
            assert span == fact.span.name
            if fact.leg is not None:
                assert (uid, ordinal) == (fact.leg.uid.hex(), fact.leg.ordinal)


def test_the_agent_says_that_the_boot_crashed(endured: Endured) -> None:
    for boot in endured.left:
        assert "crashed" in endured.stored[boot]["closes"]
        assert "clean" not in endured.stored[boot]["closes"]
