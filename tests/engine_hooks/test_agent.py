"""The agent brings what was recorded, whole and in order, and a damaged ring stops nobody else."""

from __future__ import annotations

import os
import random
import struct
import threading
from collections import Counter
from pathlib import Path

import pytest

from engine_hooks import ring_format as f
from engine_hooks.conventions import fields_of
from engine_hooks.recorder import Recorder
from engine_hooks.spool import Spool
from tests.engine_hooks.agents import agent_and_ring, an_agent, closes, ring_files, seqs, until
from tests.engine_hooks.receiver import Receiver, Reply
from tests.engine_hooks.support import a_leg, a_ring, page_list, record_reads


def test_facts_arrive_under_their_emitter_and_boot(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)

    assert agent.settle(5)

    assert seqs(receiver.facts) == list(range(1, 11))
    assert {(sent.emitter, sent.boot) for sent in receiver.facts} == {("host1/decode", recorder.ring.boot.hex())}
    assert agent.posted == 10


def test_nothing_outside_the_contract_is_ever_posted(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    leg = a_leg(2)
    recorder.transfer_queued(leg, pages=page_list(3, 1, 2), chunk_page=0, chunk_tokens=40, sender_pages=3)
    recorder.end(leg, state="finished", queued_pages=3, queued_tokens=40)
    agent.settle(5)

    for sent in receiver.facts + receiver.heartbeats:
        assert set(sent.values) <= {name for field in fields_of(sent.span) for name in field.attribute.wire_names}


def test_no_body_is_larger_than_900_kb(tmp_path: Path, receiver: Receiver) -> None:
    agent = an_agent(tmp_path, receiver.url)
    recorder = Recorder(a_ring(tmp_path / "rings", capacity=8 << 20))
    scattered = random.Random(1).sample(range(100_000), 3000)
    for _ in range(60):
        recorder.transfer_queued(a_leg(), pages=page_list(*scattered), chunk_page=0, chunk_tokens=1, sender_pages=1)

    assert agent.settle(20)

    assert seqs(receiver.facts) == list(range(1, 61))
    assert max(len(request.body) for request in receiver.requests) <= 900_000


def test_rings_take_turns(tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_hooks.batch.MAX_FACTS", 50)
    agent = an_agent(tmp_path, receiver.url)
    for name in ("a", "b"):
        recorder = Recorder(a_ring(tmp_path / "rings", f"host1/{name}"))
        record_reads(recorder, 150)

    agent.settle(10)

    order = [request.spans[0].emitter for request in receiver.accepted if request.spans[0].emitter != "host1/agent"]
    assert order == ["host1/a", "host1/b"] * 3


def test_a_ring_that_appears_later_is_found(tmp_path: Path, receiver: Receiver) -> None:
    agent = an_agent(tmp_path, receiver.url)
    agent.step()
    record_reads(Recorder(a_ring(tmp_path / "rings")), 3)

    until(agent, lambda: len(receiver.facts) == 3)


def test_a_corrupted_ring_is_reported_and_set_aside_and_the_others_go_on(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    agent, good = agent_and_ring(tmp_path, receiver)
    bad = a_ring(tmp_path / "rings", "host1/bad", lanes=1)
    record_reads(Recorder(bad), 5)
    with bad.path.open("r+b") as file:
        file.seek(f.HEADER_BYTES + 2 * 104)
        file.write(os.urandom(16))

    until(agent, lambda: ring_files(tmp_path) == sorted([good.ring.path.name, bad.path.name + ".corrupt"]))
    agent.settle(5)

    assert Counter(sent.emitter for sent in receiver.facts) == {"host1/decode": 10, "host1/bad": 2}
    assert bad.path.name in caplog.text


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\0" * 10_000, os.urandom(70_000)])
def test_a_file_that_is_no_ring_is_set_aside(content: bytes, tmp_path: Path, receiver: Receiver) -> None:
    agent, good = agent_and_ring(tmp_path, receiver)
    (tmp_path / "rings" / "x.ring").write_bytes(content)

    agent.settle(5)

    assert ring_files(tmp_path) == sorted([good.ring.path.name, "x.ring.corrupt"])
    assert len(receiver.facts) == 10


def test_a_ring_of_another_version_is_said_once_and_left_alone(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    with recorder.ring.path.open("r+b") as file:
        file.seek(f.W_CONTRACT * 8)
        file.write(struct.pack("@Q", 99))
    content = recorder.ring.path.read_bytes()

    assert not agent.settle(0.1)
    agent.settle(0.1)

    assert recorder.ring.path.read_bytes() == content
    assert caplog.text.count("at least as new as the engine's hooks") == 1


def test_stopping_sends_what_is_there_and_a_last_heartbeat(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    stop = threading.Event()
    loop = threading.Thread(target=agent.run, args=(stop,))
    loop.start()
    record_reads(recorder, 10)
    stop.set()
    loop.join(10)

    assert seqs(receiver.facts) == list(range(1, 21))
    assert closes(receiver)[-1] == "open"
    assert receiver.heartbeats[-1].values["pagewitness.seq.high_water"] == 20


def test_stopping_while_the_receiver_is_away_spools(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent.STOP_SECONDS", 0.1)
    agent, _ = agent_and_ring(tmp_path, receiver)
    receiver.rule = lambda request: Reply(503)
    stop = threading.Event()
    stop.set()
    agent.run(stop)
    assert len(Spool(tmp_path / "spool", 1 << 20)) == 1

    receiver.rule = lambda request: None
    assert an_agent(tmp_path, receiver.url).settle(5)

    assert seqs(receiver.facts) == list(range(1, 11))


def test_a_ring_directory_that_is_gone_is_said_once_and_found_again(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine_hooks.agent._SCAN_SECONDS", 0.0)
    agent = an_agent(tmp_path, receiver.url)
    (tmp_path / "rings").rmdir()
    agent.step()
    agent.step()
    assert caplog.text.count("cannot list") == 1

    record_reads(Recorder(a_ring(tmp_path / "rings")), 3)

    assert agent.settle(5)
    assert len(receiver.facts) == 3
