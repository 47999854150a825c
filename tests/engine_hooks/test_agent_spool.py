"""An outage, a full disk, a damaged file or a restart of the agent loses no fact without saying so."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from engine_hooks import ring_format as f
from engine_hooks.recorder import Recorder
from tests.engine_hooks.agents import agent_and_ring, an_agent, of_engine, ring_files, seqs, until
from tests.engine_hooks.receiver import Receiver, Reply
from tests.engine_hooks.support import a_ring, record_reads


def test_an_outage_goes_to_the_spool_and_comes_back_in_order(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.05)
    agent, recorder = agent_and_ring(tmp_path, receiver)
    receiver.rule = lambda request: Reply(503)
    until(agent, lambda: bool(list((tmp_path / "spool").iterdir())))
    record_reads(recorder, 10)
    until(agent, lambda: len(list((tmp_path / "spool").iterdir())) > 1)

    receiver.rule = lambda request: None
    until(agent, lambda: len(receiver.facts) >= 20)

    assert seqs(receiver.facts) == list(range(1, 21))
    assert list((tmp_path / "spool").iterdir()) == []


def test_spooling_gives_the_ring_its_space_back(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.05)
    agent = an_agent(tmp_path, receiver.url)
    recorder = Recorder(a_ring(tmp_path / "rings", lanes=1))
    receiver.rule = lambda request: Reply(503)
    agent.step()
    taken = 0
    for _ in range(20):
        taken += record_reads(recorder, 200)  # 20 KB; the ring has 64
        until(agent, lambda: not any(drain.reader.fill for drain in agent._drains.values()))

    receiver.rule = lambda request: None
    assert agent.settle(10)

    assert taken == 4000
    assert seqs(receiver.facts) == list(range(1, 4001))


def test_a_full_spool_leaves_facts_in_the_ring_which_drops_and_says_so(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.0)
    agent = an_agent(tmp_path, receiver.url, spool_bytes=8192)
    recorder = Recorder(a_ring(tmp_path / "rings", lanes=1))
    receiver.rule = lambda request: Reply(503)
    taken = 0
    while taken == 0 or "the spool takes no more" not in caplog.text:
        taken += record_reads(recorder, 50)
        agent.step()
    taken += record_reads(recorder, 2000)
    assert sum(path.stat().st_size for path in (tmp_path / "spool").iterdir()) <= 8192

    receiver.rule = lambda request: None
    assert agent.settle(10)

    assert seqs(receiver.facts) == list(range(1, taken + 1))
    assert receiver.heartbeats[-1].values["pagewitness.drops"] > 0


def test_spooled_facts_are_not_attested_before_the_receiver_has_them(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.0)
    agent, recorder = agent_and_ring(tmp_path, receiver)
    until(agent, lambda: len(receiver.facts) == 10)
    until(agent, lambda: any(beat.values["pagewitness.seq.high_water"] == 10 for beat in receiver.heartbeats))
    record_reads(recorder, 5)
    recorded_ns = time.time_ns()
    receiver.rule = lambda request: Reply(503) if of_engine(request) else None
    until(agent, lambda: bool(list((tmp_path / "spool").iterdir())))
    receiver.accepted.clear()
    until(agent, lambda: len(receiver.heartbeats) >= 2)

    for beat in receiver.heartbeats:
        assert beat.values["pagewitness.seq.high_water"] == 10
        assert beat.values["pagewitness.attested"] < recorded_ns

    receiver.rule = lambda request: None
    until(agent, lambda: receiver.heartbeats[-1].values["pagewitness.seq.high_water"] == 15)
    until(agent, lambda: receiver.heartbeats[-1].values["pagewitness.attested"] > recorded_ns)


def test_a_damaged_spool_file_is_a_counted_loss_that_holds_nothing_up(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.0)
    agent, recorder = agent_and_ring(tmp_path, receiver)
    receiver.rule = lambda request: Reply(503)
    until(agent, lambda: bool(list((tmp_path / "spool").glob("*.otlp"))))
    (spooled,) = (tmp_path / "spool").glob("*.otlp")
    spooled.write_bytes(spooled.read_bytes()[:-1])
    receiver.rule = lambda request: None
    record_reads(recorder, 2)

    assert agent.settle(5)

    assert seqs(receiver.facts) == [11, 12]
    last = receiver.heartbeats[-1].values
    assert (last["pagewitness.drops"], last["pagewitness.seq.high_water"]) == (10, 12)


def test_a_boot_whose_last_facts_were_lost_in_the_spool_still_ends(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.0)
    agent, recorder = agent_and_ring(tmp_path, receiver)
    recorder.close()
    receiver.rule = lambda request: Reply(503)
    until(agent, lambda: bool(list((tmp_path / "spool").glob("*.otlp"))))
    (spooled,) = (tmp_path / "spool").glob("*.otlp")
    spooled.unlink()
    receiver.rule = lambda request: None

    until(agent, lambda: ring_files(tmp_path) == [])

    last = receiver.heartbeats[-1].values
    assert (last["pagewitness.close"], last["pagewitness.drops"]) == ("clean", 10)


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_at_any_moment_loses_no_fact(
    seed: int, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("engine_hooks.batch.MAX_FACTS", 7)
    chance = random.Random(seed)
    recorder = Recorder(a_ring(tmp_path / "rings", capacity=1 << 20))
    receiver.rule = lambda request: Reply(503) if chance.random() < 0.4 else None
    recorded = 0
    for _ in range(8):
        agent = an_agent(tmp_path, receiver.url)  # the one before is simply gone
        for _ in range(chance.randrange(1, 12)):
            recorded += record_reads(recorder, chance.randrange(20))
            agent.step()
    receiver.rule = lambda request: None

    assert an_agent(tmp_path, receiver.url).settle(10)

    counts = Counter(sent.seq for sent in receiver.facts)
    assert set(counts) == set(range(1, recorded + 1))
    contents = {(sent.seq, str(sorted(sent.values.items())), sent.span_id) for sent in receiver.facts}
    assert len(contents) == recorded  # what came twice came alike


def test_facts_that_were_posted_but_not_noted_come_again_alike(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    before = recorder.ring.path.read_bytes()
    agent.settle(5)
    with recorder.ring.path.open("r+b") as file:  # as if the agent had died before it noted the answer
        file.write(before[: f.HEADER_BYTES])

    assert an_agent(tmp_path, receiver.url).settle(5)

    facts = receiver.facts
    assert facts[:10] == facts[10:]


def test_the_receiver_may_move_its_answer_beyond_the_agents_patience(tmp_path: Path, receiver: Receiver) -> None:
    """A receiver that stores a message and answers too late gets it twice: the identity makes that harmless."""
    agent = an_agent(tmp_path, receiver.url, timeout=0.1)
    record_reads(Recorder(a_ring(tmp_path / "rings")), 3)
    receiver.script = [Reply(200, delay=0.3)]

    until(agent, lambda: len(receiver.facts) == 6)

    assert receiver.facts[:3] == receiver.facts[3:]
