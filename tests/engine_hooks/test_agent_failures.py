"""A receiver that fails costs nothing but time, and only what it alone refuses is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_hooks.recorder import Recorder
from tests.engine_hooks.agents import agent_and_ring, an_agent, closes, of_engine, ring_files, seqs, until
from tests.engine_hooks.receiver import Receiver, Reply
from tests.engine_hooks.support import a_ring, record_reads


@pytest.mark.parametrize(
    "failures",
    [
        [Reply(503)],
        [Reply(503, {"Retry-After": "0"}), Reply(429), Reply(500), Reply(502)],
        [Reply(200, hang_up=True)],
        [Reply(404)],
        [Reply(200, delay=0.3)],
    ],
)
def test_a_passing_failure_loses_nothing(failures: list[Reply], tmp_path: Path, receiver: Receiver) -> None:
    agent = an_agent(tmp_path, receiver.url, timeout=0.1)
    record_reads(Recorder(a_ring(tmp_path / "rings")), 10)
    receiver.script = failures

    until(agent, lambda: {*seqs(receiver.facts)} == set(range(1, 11)))


def test_a_poison_span_is_dropped_alone_and_counted(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    agent, _ = agent_and_ring(tmp_path, receiver)
    receiver.rule = lambda request: Reply(400) if 4 in seqs(of_engine(request)) else None

    assert agent.settle(5)

    assert sorted(seqs(receiver.facts)) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert receiver.heartbeats[-1].values["pagewitness.drops"] == 1
    assert receiver.heartbeats[-1].values["pagewitness.seq.high_water"] == 10
    assert "dropped one fact that the receiver refuses (HTTP 400)" in caplog.text


def test_a_receiver_with_a_smaller_limit_gets_smaller_bodies(tmp_path: Path, receiver: Receiver) -> None:
    agent, _ = agent_and_ring(tmp_path, receiver, facts=100)
    receiver.rule = lambda request: Reply(413) if len(request.body) > 5_000 else None

    assert agent.settle(10)

    assert seqs(receiver.facts) == list(range(1, 101))
    assert receiver.heartbeats[-1].values["pagewitness.drops"] == 0


def test_a_denied_emitter_keeps_its_facts_and_holds_nobody_up(tmp_path: Path, receiver: Receiver) -> None:
    agent, denied = agent_and_ring(tmp_path, receiver)
    record_reads(Recorder(a_ring(tmp_path / "rings", "host1/prefill")), 3)
    receiver.rule = lambda request: Reply(403) if of_engine(request) else None

    until(agent, lambda: len(receiver.facts) == 3)
    for _ in range(20):
        agent.step()

    assert {sent.emitter for sent in receiver.facts} == {"host1/prefill"}
    assert sum(bool(of_engine(request)) for request in receiver.requests) == 1  # not hammered
    assert str(denied.ring.path.name) in ring_files(tmp_path)


def test_a_message_that_always_fails_holds_up_no_other_ring_and_no_heartbeat(
    tmp_path: Path, receiver: Receiver
) -> None:
    agent = an_agent(tmp_path, receiver.url, pause=0.1)  # long enough that one pass has one attempt
    for name in ("another", "decode", "prefill"):
        record_reads(Recorder(a_ring(tmp_path / "rings", f"host1/{name}")), 3)
    receiver.rule = lambda request: Reply(500) if of_engine(request) else None

    until(agent, lambda: len(receiver.facts) == 6)
    until(agent, lambda: len(receiver.heartbeats) >= 2)

    assert {sent.emitter for sent in receiver.facts} == {"host1/another", "host1/prefill"}


def test_a_ring_that_ends_while_another_always_fails_is_let_go(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    stuck = a_ring(tmp_path / "rings", "host1/stuck")
    record_reads(Recorder(stuck), 3)
    receiver.rule = lambda request: Reply(500) if request.spans[0].emitter == "host1/stuck" else None
    until(agent, lambda: len(receiver.facts) == 10)
    recorder.close()

    until(agent, lambda: ring_files(tmp_path) == [stuck.path.name])

    assert "clean" in closes(receiver)


def test_a_spooled_message_that_always_fails_holds_up_no_other_boot(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.SPOOL_AFTER_SECONDS", 0.0)
    agent, _ = agent_and_ring(tmp_path, receiver)
    record_reads(Recorder(a_ring(tmp_path / "rings", "host1/prefill")), 3)
    receiver.rule = lambda request: Reply(503)
    until(agent, lambda: len(list((tmp_path / "spool").iterdir())) == 2)
    receiver.rule = lambda request: Reply(500) if of_engine(request) else None

    until(agent, lambda: len(receiver.facts) == 3)

    assert {sent.emitter for sent in receiver.facts} == {"host1/prefill"}
