"""Heartbeats say how far each boot has come, and how it ended."""

from __future__ import annotations

import struct
from pathlib import Path

from engine_hooks import ring_format as f
from tests.engine_hooks.agents import READS, agent_and_ring, an_agent, closes, of_engine, ring_files, seqs, until
from tests.engine_hooks.receiver import Receiver, Reply
from tests.engine_hooks.support import a_leg, writer_process


def test_a_heartbeat_says_how_far_each_ring_has_come(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    recorder.hook_error()
    agent.settle(5)

    beat = receiver.heartbeats[-1]

    assert beat.emitter == "host1/agent"
    said = {name.removeprefix("pagewitness."): value for name, value in beat.values.items()}
    assert said.pop("attested") > said.pop("seq") > 0
    assert said == {
        "subject.emitter": "host1/decode", "subject.boot": recorder.ring.boot.hex(), "seq.high_water": 10,
        "drops": 0, "hook.errors": 1, "close": "open",
    }  # fmt: skip


def test_heartbeats_have_gapless_seqs_of_their_own(tmp_path: Path, receiver: Receiver) -> None:
    agent, _ = agent_and_ring(tmp_path, receiver)
    receiver.rule = lambda request: Reply(503) if len(receiver.requests) % 3 == 0 else None

    until(agent, lambda: len(receiver.heartbeats) >= 5)

    beats = receiver.heartbeats
    assert sorted(set(seqs(beats))) == list(range(1, max(seqs(beats)) + 1))
    assert len({beat.boot for beat in beats}) == 1


def test_attested_time_never_goes_back_and_moves_on_while_nothing_happens(tmp_path: Path, receiver: Receiver) -> None:
    agent, _ = agent_and_ring(tmp_path, receiver)
    until(agent, lambda: len(receiver.heartbeats) >= 4)

    attested = [beat.values["pagewitness.attested"] for beat in receiver.heartbeats]

    assert attested == sorted(attested)
    assert attested[-1] > attested[-2] > 1_700_000_000_000_000_000


def test_a_fact_on_the_way_holds_the_attested_time_back(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    agent.settle(5)
    recorder.read(a_leg(), phase="last", tokens=1)
    receiver.rule = lambda request: Reply(503) if of_engine(request) else None
    receiver.accepted.clear()
    for _ in range(30):
        agent.step()

    reader = next(iter(agent._drains.values())).reader

    assert reader.acked == 10
    assert reader.attested_ns < reader.snapshot().time_ns - 1  # stays where it was
    before = reader.attested_ns
    agent.step()
    assert reader.attested_ns == before


def test_a_killed_writer_is_drained_to_its_end_reported_and_its_ring_deleted(
    tmp_path: Path, receiver: Receiver
) -> None:
    agent = an_agent(tmp_path, receiver.url)
    with writer_process(tmp_path / "rings", READS) as process:
        until(agent, lambda: len(receiver.facts) > 0)
        assert closes(receiver)[-1:] in ([], ["open"])
        process.kill()
        process.wait()
        until(agent, lambda: ring_files(tmp_path) == [])

    assert seqs(receiver.facts) == list(range(1, 301))
    last = receiver.heartbeats[-1].values
    assert (last["pagewitness.close"], last["pagewitness.seq.high_water"]) == ("crashed", 300)


def test_a_writer_that_died_before_the_agent_came_is_drained_too(tmp_path: Path, receiver: Receiver) -> None:
    with writer_process(tmp_path / "rings", READS) as process:
        process.kill()
        process.wait()
    agent = an_agent(tmp_path, receiver.url)

    assert agent.settle(5)

    assert seqs(receiver.facts) == list(range(1, 301))
    assert (closes(receiver)[-1], ring_files(tmp_path)) == ("crashed", [])


def test_a_closed_ring_is_reported_clean_and_deleted(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    recorder.close()

    until(agent, lambda: ring_files(tmp_path) == [])

    assert seqs(receiver.facts) == list(range(1, 11))
    assert closes(receiver)[-1] == "clean"


def test_a_dead_ring_stays_until_its_end_was_acknowledged(tmp_path: Path, receiver: Receiver) -> None:
    agent, recorder = agent_and_ring(tmp_path, receiver)
    recorder.close()
    receiver.rule = lambda request: Reply(503) if not of_engine(request) else None
    until(agent, lambda: len(receiver.facts) == 10)
    for _ in range(20):
        agent.step()
    assert ring_files(tmp_path) == [recorder.ring.path.name]

    receiver.rule = lambda request: None

    until(agent, lambda: ring_files(tmp_path) == [])
    assert closes(receiver)[-1] == "clean"


def test_a_fact_that_died_half_written_leaves_the_high_water_mark_before_it(tmp_path: Path, receiver: Receiver) -> None:
    body = "import threading\n" + READS + "\nt = threading.Thread(target=recorder.transfer_refused, args=(leg,))\n"
    body += "t.start(); t.join(); recorder.read(leg, phase='last', tokens=1)"
    with writer_process(tmp_path / "rings", body) as process:
        process.kill()
        process.wait()
    (path,) = (tmp_path / "rings").glob("*.ring")
    with path.open("r+b") as file:  # seq 301, the only fact of the second lane, was never finished
        file.seek((f.lane_word(1) + f.L_WRITE) * 8)
        file.write(struct.pack("@Q", 0))

    assert an_agent(tmp_path, receiver.url).settle(5)

    assert seqs(receiver.facts) == [*range(1, 301), 302]
    last = receiver.heartbeats[-1].values
    assert (last["pagewitness.seq.high_water"], last["pagewitness.drops"], last["pagewitness.close"]) == (
        300,
        0,
        "crashed",
    )
