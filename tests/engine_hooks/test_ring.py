"""The writer's end of a ring: gapless seqs, counted drops, nothing blocks or raises, and it outlives its process."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine_hooks.conventions import PAGE_READ
from engine_hooks.facts import layout_of
from engine_hooks.recorder import Recorder
from engine_hooks.ring import Ring, RingError
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.support import SMALL, a_leg, a_ring, facts_in, page_list, record_reads, writer_process


def seqs(ring: Ring | Path) -> list[int]:
    return [fact.seq for fact in facts_in(ring)]


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Run `work` in `count` threads that all live at the same time."""
    together = threading.Barrier(count)

    def body(number: int) -> None:
        together.wait()
        work(number)
        together.wait()

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_ring_is_a_private_file_that_names_emitter_and_boot(tmp_path: Path) -> None:
    ring = a_ring(tmp_path / "new" / "rings", "host1/decode-31001-tp0")

    assert ring.path.name == f"host1+decode-31001-tp0-{ring.boot.hex()}.ring"
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.path.parent.stat().st_mode) == 0o700
    reader = RingReader.open(ring.path)
    assert (reader.emitter, reader.boot) == ("host1/decode-31001-tp0", ring.boot)


def test_every_boot_is_another(tmp_path: Path) -> None:
    assert a_ring(tmp_path).boot != a_ring(tmp_path).boot


@pytest.mark.parametrize(
    "emitter", ["", "host", "host/", "/name", "a/b/c", "../x/y", "host/näme", "host/a b", "h/" + "x" * 100]
)
def test_a_bad_emitter_is_refused_and_leaves_no_file(emitter: str, tmp_path: Path) -> None:
    with pytest.raises(RingError, match="PAGEWITNESS_EMITTER"):
        a_ring(tmp_path, emitter)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("capacity", "lanes"), [(1024, 2), (SMALL, 0), (SMALL, 25)])
def test_a_ring_that_cannot_be_divided_is_refused(capacity: int, lanes: int, tmp_path: Path) -> None:
    with pytest.raises(RingError, match="lanes"):
        a_ring(tmp_path, capacity=capacity, lanes=lanes)


def test_a_ring_without_space_is_refused_at_once_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RingError, match="PAGEWITNESS_RING_DIR"):
        a_ring(tmp_path, capacity=1 << 60)
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_system_is_found_when_the_ring_is_made_not_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert a_ring(tmp_path).path.stat().st_blocks * 512 >= SMALL  # reserved, not sparse

    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("engine_hooks.ring.os.posix_fallocate", full)
    with pytest.raises(RingError, match="No space left"):
        a_ring(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


def test_seqs_are_gapless_over_threads(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, capacity=1 << 20, lanes=4)
    recorder = Recorder(ring)

    in_threads(4, lambda number: record_reads(recorder, 300, a_leg(number + 1)))

    assert seqs(ring) == list(range(1, 1201))


def test_seqs_of_one_thread_are_in_the_order_of_its_calls(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, capacity=1 << 20, lanes=4)
    recorder = Recorder(ring)

    in_threads(4, lambda number: record_reads(recorder, 300, a_leg(number + 1)))

    facts = facts_in(ring)
    for number in range(4):
        own = [fact for fact in facts if fact.leg and fact.leg.uid == a_leg(number + 1).uid]
        assert [fact.leg.ordinal for fact in own if fact.leg] == list(range(1, 301))


def test_a_failed_fact_leaves_no_hole(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    recorder = Recorder(ring)
    for tokens in (1, "many", 2, None, 3):
        recorder.read(a_leg(), phase="first", tokens=tokens)  # type: ignore[arg-type]

    assert [fact.values["pagewitness.read.tokens"] for fact in facts_in(ring)] == [1, 2, 3]
    assert seqs(ring) == [1, 2, 3]


def test_a_full_ring_drops_and_counts_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    ring, leg = a_ring(tmp_path, lanes=1), a_leg()
    recorder = Recorder(ring)
    taken = record_reads(recorder, 5000, leg)
    reader = RingReader.open(ring.path)
    assert 0 < taken < 5000
    assert reader.drops == 5000 - taken

    snapshot = reader.snapshot()
    while reader.next(snapshot) is not None:
        pass
    reader.commit()

    assert recorder.transfer_refused(leg)
    (fact,) = facts_in(ring)
    assert fact.leg is not None
    assert (fact.seq, fact.leg.ordinal) == (taken + 1, 5001)  # drops used up ordinals, no seq


def test_a_ring_wraps_around_without_losing_a_byte(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, lanes=1)
    recorder = Recorder(ring)
    reader = RingReader.open(ring.path)
    lists = [page_list(*range(place, place + place % 500)) for place in range(2000)]
    read = []
    for place, pages in enumerate(lists):
        assert recorder.transfer_queued(a_leg(), pages=pages, chunk_page=place, chunk_tokens=1, sender_pages=1)
        if place % 9 == 0 or place == len(lists) - 1:
            read += facts_in(ring)
            snapshot = reader.snapshot()
            while reader.next(snapshot) is not None:
                pass
            reader.commit()

    assert [fact.seq for fact in read] == list(range(1, 2001))
    assert [fact.values["pagewitness.pages"] for fact in read] == lists


def test_a_fact_larger_than_half_its_lane_is_dropped(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, lanes=1)

    pages = page_list(*range(SMALL // 8))
    assert not Recorder(ring).transfer_queued(a_leg(), pages=pages, chunk_page=0, chunk_tokens=1, sender_pages=1)

    assert RingReader.open(ring.path).drops == 1


def test_a_thread_without_a_lane_drops_and_counts(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, lanes=2)
    recorder = Recorder(ring)
    taken: list[int] = []

    in_threads(3, lambda number: taken.append(record_reads(recorder, 10)))

    assert sorted(taken) == [0, 10, 10]
    assert RingReader.open(ring.path).drops == 10


def test_the_lane_of_a_thread_that_ended_goes_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    idents = iter(range(1, 100))  # the system may give a dead thread's ident to the next, or not, as here
    own = threading.local()

    def ident() -> int:
        if not hasattr(own, "ident"):
            own.ident = next(idents)
        return int(own.ident)

    monkeypatch.setattr("engine_hooks.ring.get_ident", ident)
    monkeypatch.setattr("engine_hooks.ring._RECLAIM_SECONDS", 0.0)
    ring = a_ring(tmp_path, lanes=2)
    recorder = Recorder(ring)

    for _ in range(5):
        in_threads(1, lambda number: record_reads(recorder, 10))

    assert seqs(ring) == list(range(1, 51))


def test_errors_of_all_threads_are_counted(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, lanes=2)
    recorder = Recorder(ring)
    record_reads(recorder, 1)
    for _ in range(3):
        recorder.hook_error()

    in_threads(2, lambda number: recorder.hook_error())

    assert RingReader.open(ring.path).hook_errors == 5


def test_recording_in_the_middle_of_recording_is_refused_not_interleaved(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    recorder = Recorder(ring)
    inner: list[bool] = []

    class Interrupted:
        """A value whose conversion runs other code, as a signal handler would in the middle of a call."""

        def __index__(self) -> int:
            inner.append(recorder.read(a_leg(2), phase="first", tokens=1))
            return 7

    assert recorder.read(a_leg(), phase="first", tokens=Interrupted())  # type: ignore[arg-type]

    assert inner == [False]
    assert [fact.values["pagewitness.read.tokens"] for fact in facts_in(ring)] == [7]
    assert RingReader.open(ring.path).drops == 1


def test_a_signal_that_interrupts_the_last_step_still_leaves_the_fact_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = a_ring(tmp_path)
    recorder = Recorder(ring)
    recorder.read(a_leg(), phase="first", tokens=1)
    interruptions = iter([KeyboardInterrupt()])

    def interrupted_clock() -> int:
        for interruption in interruptions:
            raise interruption
        return 5

    monkeypatch.setattr("engine_hooks.ring.time_ns", interrupted_clock)
    with pytest.raises(KeyboardInterrupt):  # it is the engine's own, and stays so
        recorder.read(a_leg(), phase="first", tokens=2)
    recorder.read(a_leg(), phase="first", tokens=3)

    assert [(fact.seq, fact.values["pagewitness.read.tokens"]) for fact in facts_in(ring)] == [(1, 1), (2, 2), (3, 3)]


def test_a_closed_ring_refuses_and_says_how_far_it_came(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    recorder = Recorder(ring)
    record_reads(recorder, 3)
    recorder.close()
    recorder.close()

    assert record_reads(recorder, 1) == 0
    reader = RingReader.open(ring.path)
    assert reader.closed
    assert not reader.writer_alive()
    assert seqs(ring) == [1, 2, 3]


def test_a_forked_child_writes_nothing_into_the_ring(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    recorder = Recorder(ring)
    record_reads(recorder, 2)
    before = ring.path.read_bytes()

    child = os.fork()
    if child == 0:
        took = record_reads(recorder, 5)
        recorder.hook_error()
        recorder.close()
        os._exit(took)
    status = os.waitpid(child, 0)[1]

    assert os.waitstatus_to_exitcode(status) == 0
    assert ring.path.read_bytes() == before
    assert record_reads(recorder, 1) == 1


def test_a_fork_does_not_keep_the_lock_of_a_dead_parent(tmp_path: Path) -> None:
    body = (
        "import os\nchild = os.fork()\nif child == 0:\n    time.sleep(20)\n    os._exit(0)\nprint(child, flush=True)\n"
    )
    script = (
        "import time\nfrom engine_hooks.ring import Ring\n"
        f"ring = Ring.create({str(tmp_path)!r}, 'host1/decode', capacity=65536, lanes=2)\n{body}time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        (path,) = tmp_path.glob("*.ring")
        alive = RingReader.open(path).writer_alive()
        parent.kill()
        parent.wait()
        dead = not RingReader.open(path).writer_alive()
        os.kill(child, 9)

    assert (alive, dead) == (True, True)


def test_what_a_killed_process_recorded_is_in_its_ring(tmp_path: Path) -> None:
    with writer_process(tmp_path, "for n in range(500): recorder.read(leg, phase='first', tokens=n)") as process:
        process.kill()
        process.wait()

    (path,) = tmp_path.glob("*.ring")
    assert [fact.values["pagewitness.read.tokens"] for fact in facts_in(path)] == list(range(500))


def test_the_lock_tells_a_living_writer_from_a_dead_one(tmp_path: Path) -> None:
    with writer_process(tmp_path) as process:
        (path,) = tmp_path.glob("*.ring")
        reader = RingReader.open(path)
        assert reader.writer_alive()
        process.kill()
        process.wait()
        assert not reader.writer_alive()
        assert not reader.closed


def test_the_lock_is_a_posix_lock_on_the_ring_file(tmp_path: Path) -> None:
    with writer_process(tmp_path):
        (path,) = tmp_path.glob("*.ring")
        with path.open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_append_itself_raises_what_packing_raises_before_a_seq_is_taken(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)

    with pytest.raises(struct.error):
        ring.append(layout_of(PAGE_READ), 0, ("x",))

    assert record_reads(Recorder(ring), 1) == 1
    assert seqs(ring) == [1]
