"""Whatever goes wrong with the hooks, their ring or their agent: the engine answers as if they were not there.

The same prompts in the same order, one after the other (a batch of another composition rounds differently), to a pair
without the plugin and to one in which something else fails in each round. The exact tier, which has every hook.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.ring_reader import RingReader
from engine_hooks.sglang_plugin.kill_file import LOOK_SECONDS
from lab.engine.agent_process import AgentProcess
from lab.engine.client import Answer, Client
from lab.engine.pair import Pair
from lab.engine.plugins import with_plugin
from lab.engine.progress import say_nothing
from lab.engine.recording_receiver import RecordingReceiver
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import Ask, prompt, room_of
from tests.engine_hooks.sglang_plugin.on_engine import ROLES, salt_of, wait
from tests.engine_hooks.support import facts_in

pytestmark = [pytest.mark.engine, pytest.mark.timeout(500)]

VERSION = "0.5.19"
SABOTAGE = Path(__file__).parent / "sglang_plugin" / "sabotage"
RING_BYTES = 12 << 10
"""Two lanes of 6 KiB: a few requests fill one, and a configuration still fits."""

FULL, HUNG, RAISING = "a full ring and no agent", "a hung agent", "raising in every hook"
STILL, AFTER = "a standstill", "after it"
ROUNDS = (FULL, HUNG, RAISING, STILL, AFTER)
PROMPTS = (20, 300, 33, 500, 100, 64, 48, 200)
"""Lengths in tokens; later rounds ask the same again, so prefixes are found in the cache."""
ANSWER_TOKENS = 24


def said(answer: Answer) -> dict[str, Any]:
    """All that the engine answered, but for times."""
    kept = ("finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens")
    body = answer.body if isinstance(answer.body, dict) else {"body": answer.body}
    return {
        "status": answer.status,
        "text": body.get("text"),
        "output_ids": body.get("output_ids"),
        **{name: answer.meta.get(name) for name in kept},
    }


def ask_all(client: Client, round_name: str) -> list[dict[str, Any]]:
    """One round of prompts, one after the other, and what both nodes said to each."""
    answers = []
    for number, tokens in enumerate(PROMPTS):
        rid = f"{ROUNDS.index(round_name)}-{number:03d}"
        body = {
            "rid": rid,
            "text": prompt(Ask("acme", tokens), number),
            "cache_salt": salt_of("acme"),
            "sampling_params": {"temperature": 0, "max_new_tokens": ANSWER_TOKENS, "ignore_eos": True},
        }
        answer = client.ask(body, room=room_of(rid), timeout=60.0)
        answers += [said(answer.prefill), said(answer.decode)]
    return answers


@dataclass
class Rounds:
    """What was answered in each round, and by how much each role's counters rose in it."""

    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    drops: dict[str, dict[str, int]] = field(default_factory=dict)
    errors: dict[str, dict[str, int]] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    boots: dict[str, list[Boot]] = field(default_factory=dict)


@dataclass(frozen=True)
class Boot:
    """What one ring of a role says after the last round."""

    closed: bool
    drops: int
    first: str


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """The pair without the plugin."""
    found = Rounds()
    settings = PairSettings(VERSION, hooks=False)
    with Pair(settings, RunFolder(tmp_path_factory.mktemp("untouched")), say=say_nothing) as pair:
        with pair.client() as client:
            for name in ROUNDS:
                found.answers[name] = ask_all(client, name)
    return found


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """The pair with everything that can go wrong, one thing a round."""
    found = Rounds()
    run = RunFolder(tmp_path_factory.mktemp("struck"))
    settings = {"PAGEWITNESS_TIER": "exact", "PAGEWITNESS_KILL_FILE": str(run.root / "kill")}
    sabotage = {"LAB_SABOTAGE_FILE": str(run.root / "sabotage"), "LAB_SABOTAGE_RING_BYTES": str(RING_BYTES)}
    hooked = with_plugin(PairSettings(VERSION, environment=settings), SABOTAGE, sabotage)
    with Pair(hooked, run, say=say_nothing) as pair:
        with pair.client() as client:
            for name in (FULL, HUNG, RAISING):
                with failure(name, run):
                    before = {role: counters(run, role) for role in ROLES}
                    found.answers[name] = ask_all(client, name)
                    after = {role: counters(run, role) for role in ROLES}
                found.drops[name] = {role: after[role][0] - before[role][0] for role in ROLES}
                found.errors[name] = {role: after[role][1] - before[role][1] for role in ROLES}
            with failure(STILL, run):
                time.sleep(LOOK_SECONDS)  # so that the first hook of either role looks, however fast this engine is
                found.answers[STILL] = ask_all(client, STILL)
            time.sleep(LOOK_SECONDS)
            found.answers[AFTER] = ask_all(client, AFTER)
            found.dead = pair.dead_servers()
            found.boots = {role: boots(run, role) for role in ROLES}
    return found


def failure(name: str, run: RunFolder) -> AbstractContextManager[None]:
    """What goes wrong in a round."""
    if name == HUNG:
        return hung_agent(run)
    files = {RAISING: "sabotage", STILL: "kill"}
    return existing(run.root / files[name]) if name in files else nullcontext()


@contextmanager
def hung_agent(run: RunFolder) -> Iterator[None]:
    """An agent that drained everything, and then stopped for good."""
    with RecordingReceiver() as receiver, AgentProcess(run, receiver.url, receiver.token) as agent:
        wait(lambda: all(filled(run, role) == 0 for role in ROLES))
        os.kill(agent.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(agent.pid, signal.SIGCONT)


@contextmanager
def existing(file: Path) -> Iterator[None]:
    """The file is there meanwhile."""
    file.touch()
    try:
        yield
    finally:
        file.unlink()


def counters(run: RunFolder, role: str) -> tuple[int, int]:
    """Drops and hook errors of a role so far."""
    with reading(run, role) as reader:
        return reader.drops, reader.hook_errors


def filled(run: RunFolder, role: str) -> float:
    """How full its ring is."""
    with reading(run, role) as reader:
        return reader.fill


def rings(run: RunFolder, role: str) -> list[Path]:
    """The rings of a role."""
    return list(run.rings.glob(f"*+{role}-*.ring"))


def boots(run: RunFolder, role: str) -> list[Boot]:
    """What each ring of a role says, the closed ones first."""
    found = []
    for ring in rings(run, role):
        reader = RingReader.open(ring)
        facts = facts_in(ring)
        found.append(Boot(reader.closed, reader.drops, facts[0].span.name if facts else ""))
        reader.close()
    return sorted(found, key=lambda boot: not boot.closed)


@contextmanager
def reading(run: RunFolder, role: str) -> Iterator[RingReader]:
    (ring,) = rings(run, role)
    reader = RingReader.open(ring)
    try:
        yield reader
    finally:
        reader.close()


@pytest.mark.parametrize("name", ROUNDS)
def test_the_answers_are_those_of_an_engine_without_the_plugin(name: str, struck: Rounds, untouched: Rounds) -> None:
    assert struck.answers[name] == untouched.answers[name]


def test_every_prompt_of_these_rounds_was_answered(untouched: Rounds) -> None:
    """Else equal answers would mean little."""
    for answers in untouched.answers.values():
        assert [answer["status"] for answer in answers] == [200] * 2 * len(PROMPTS)


def test_the_engine_survived(struck: Rounds) -> None:
    assert struck.dead == []


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", [FULL, HUNG])
def test_the_ring_was_full_and_said_so(name: str, role: str, struck: Rounds) -> None:
    assert struck.drops[name][role] > 0
    assert struck.errors[name][role] == 0


@pytest.mark.parametrize("role", ROLES)
def test_the_hooks_did_raise(role: str, struck: Rounds) -> None:
    assert struck.errors[RAISING][role] > len(PROMPTS)


@pytest.mark.parametrize("role", ROLES)
def test_a_standstill_ends_the_boot_and_another_follows(role: str, struck: Rounds) -> None:
    """The new one begins with its configuration, and with a loss that nobody can measure."""
    before, after = struck.boots[role]
    assert (before.closed, after.closed) == (True, False)
    assert after.first == "pagewitness.node.config"
    assert after.drops > 0
