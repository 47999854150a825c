"""The agent's end of a ring: seq order over lanes, nothing skipped, damage seen, and its own progress remembered."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest

from engine_hooks import ring_format as f
from engine_hooks.facts import HEADER, unpack_fact
from engine_hooks.recorder import Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_reader import RingReader, Snapshot
from tests.engine_hooks.support import a_ring, record_reads, writer_process

RECORD = 104  # bytes of a page.read fact


def in_another_thread(recorder: Recorder, count: int) -> None:
    """Record from a thread that stays known, so that it keeps a lane of its own."""
    thread = threading.Thread(target=record_reads, args=(recorder, count))
    thread.start()
    thread.join()


def take(reader: RingReader, most: int = 1 << 30, snapshot: Snapshot | None = None) -> list[int]:
    snapshot = snapshot or reader.snapshot()
    seqs: list[int] = []
    while len(seqs) < most and (record := reader.next(snapshot)) is not None:
        seqs.append(unpack_fact(record).seq)
    return seqs


def two_lanes(directory: Path) -> Ring:
    """Seqs 1..3 and 7..9 in one lane, 4..6 in another."""
    ring = a_ring(directory)
    recorder = Recorder(ring)
    record_reads(recorder, 3)
    in_another_thread(recorder, 3)
    record_reads(recorder, 3)
    return ring


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_facts_come_in_seq_order_over_lanes(tmp_path: Path) -> None:
    reader = RingReader.open(two_lanes(tmp_path).path)

    assert take(reader) == list(range(1, 10))


def test_a_snapshot_does_not_grow(tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    reader = RingReader.open(ring.path)
    snapshot = reader.snapshot()
    record_reads(Recorder(ring), 5)

    assert take(reader, snapshot=snapshot) == list(range(1, 10))
    assert reader.exhausted(snapshot)


def test_rewinding_reads_again_and_committing_does_not(tmp_path: Path) -> None:
    reader = RingReader.open(two_lanes(tmp_path).path)
    take(reader, 4)
    reader.commit()
    take(reader, 3)
    reader.rewind()

    assert take(reader) == [5, 6, 7, 8, 9]


def test_a_pushed_back_fact_comes_again(tmp_path: Path) -> None:
    reader = RingReader.open(two_lanes(tmp_path).path)
    snapshot = reader.snapshot()
    record = reader.next(snapshot)
    assert record is not None

    reader.push_back(record)

    assert take(reader, snapshot=snapshot)[0] == 1


def test_another_reader_goes_on_where_the_last_one_committed(tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    first = RingReader.open(ring.path)
    take(first, 4)
    first.acknowledge(1, 4)
    first.commit()
    first.close()

    second = RingReader.open(ring.path)

    assert (second.taken, second.acked) == (4, 4)
    assert take(second) == [5, 6, 7, 8, 9]


def test_a_reader_that_died_between_two_cursors_repeats_nothing_that_it_had_numbered(tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    overwrite(ring.path, f.A_TAKEN * 8, struct.pack("@Q", 5))  # numbered, the cursors not yet moved

    assert take(RingReader.open(ring.path)) == [6, 7, 8, 9]


def test_a_reader_beside_a_busy_writer_sees_every_fact_whole_and_in_order(tmp_path: Path) -> None:
    """The lane is filled several times over while it is read; what finds no room is dropped and counted."""
    busy = "print('ready', flush=True)\nfor n in range(30_000): recorder.read(leg, phase='first', tokens=n, row=n)\n"
    seqs: list[int] = []
    tokens: list[int] = []
    with writer_process(tmp_path, busy + "ring.close()"):
        (path,) = tmp_path.glob("*.ring")
        reader = RingReader.open(path)
        last = False
        while not last:
            last = reader.closed  # asked before the snapshot: then that one is the last
            snapshot = reader.snapshot()
            while (record := reader.next(snapshot)) is not None:
                fact = unpack_fact(record)
                assert fact.values["pagewitness.read.tokens"] == fact.values["pagewitness.row"]
                seqs.append(fact.seq)
                tokens.append(int(str(fact.values["pagewitness.row"])))
            reader.commit()

    assert seqs == list(range(1, len(seqs) + 1))
    assert tokens == sorted(set(tokens))
    assert len(seqs) + reader.drops == 30_000


def unfinished(directory: Path) -> Path:
    """A ring in which seq 4 is numbered and not there: its lane's cursor stands before it."""
    ring = two_lanes(directory)
    reader = RingReader.open(ring.path)
    lane = next(lane for lane in range(2) if reader.snapshot().cursors[lane] == 3 * RECORD)
    overwrite(ring.path, (f.lane_word(lane) + f.L_WRITE) * 8, struct.pack("@Q", 0))
    return ring.path


def test_a_seq_that_is_not_there_yet_holds_later_ones_back(tmp_path: Path) -> None:
    reader = RingReader.open(unfinished(tmp_path))
    snapshot = reader.snapshot()

    assert take(reader, snapshot=snapshot) == [1, 2, 3]
    assert not reader.exhausted(snapshot)


def test_seqs_that_died_with_the_writer_stop_the_high_water_mark_but_not_the_facts(tmp_path: Path) -> None:
    reader = RingReader.open(unfinished(tmp_path))
    snapshot = reader.snapshot()
    take(reader, snapshot=snapshot)
    reader.acknowledge(1, 3)
    reader.commit()

    assert reader.skip_hole(snapshot, crashed=True) == 3
    assert take(reader, snapshot=snapshot) == [7, 8, 9]
    reader.acknowledge(7, 9)
    assert (reader.acked, reader.high_water, reader.lost) == (9, 3, 0)


def test_seqs_that_a_living_writer_lost_count_as_lost(tmp_path: Path) -> None:
    reader = RingReader.open(unfinished(tmp_path))
    snapshot = reader.snapshot()
    take(reader, snapshot=snapshot)
    reader.acknowledge(1, 3)
    reader.commit()

    reader.skip_hole(snapshot, crashed=False)
    take(reader, snapshot=snapshot)
    reader.acknowledge(7, 9)

    assert (reader.high_water, reader.lost) == (9, 3)


def test_facts_between_two_acknowledged_batches_that_never_came_are_lost(tmp_path: Path) -> None:
    reader = RingReader.open(two_lanes(tmp_path).path)
    reader.acknowledge(1, 3)

    assert reader.acknowledge(6, 9, refused=1) == 3
    assert (reader.acked, reader.lost) == (9, 3)


def test_an_old_acknowledgement_changes_nothing(tmp_path: Path) -> None:
    reader = RingReader.open(two_lanes(tmp_path).path)
    reader.acknowledge(1, 9, attests_ns=2**62)

    reader.acknowledge(3, 5, attests_ns=2**61)

    assert (reader.acked, reader.lost, reader.attested_ns) == (9, 0, 2**62)


def test_before_anything_is_read_all_before_the_boot_is_attested(tmp_path: Path) -> None:
    reader = RingReader.open(a_ring(tmp_path).path)

    assert reader.attested_ns == reader.created_ns


def test_what_a_clean_close_numbered_and_nobody_wrote_is_lost(tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    ring.close()
    overwrite(ring.path, f.W_LAST_SEQ * 8, struct.pack("@Q", 11))
    reader = RingReader.open(ring.path)
    take(reader)
    reader.acknowledge(1, 9)
    reader.commit()

    assert (reader.count_missing_end(), reader.lost) == (2, 2)
    assert reader.count_missing_end() == 0


@pytest.mark.parametrize(
    ("offset", "content"),
    [
        (0, b"nonsense"),
        (f.W_CAPACITY * 8, struct.pack("@Q", 1 << 40)),
        (f.W_LANES * 8, struct.pack("@Q", 25)),
        (f.W_LANES * 8, struct.pack("@Q", 3)),
        (f.W_PID * 8, struct.pack("@Q", 1)),
        (256, b"host2/"),
        ((f.lane_word(0) + f.L_BASE) * 8, struct.pack("@Q", 0)),
    ],
)
def test_a_damaged_header_is_seen(offset: int, content: bytes, tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    overwrite(ring.path, offset, content)

    with pytest.raises(f.RingCorruptError):
        RingReader.open(ring.path)


@pytest.mark.parametrize("word", [f.W_VERSION, f.W_CONTRACT])
def test_a_ring_of_another_version_is_not_called_corrupt(word: int, tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    overwrite(ring.path, word * 8, struct.pack("@Q", 99))

    with pytest.raises(f.RingError, match="at least as new as the engine's hooks") as caught:
        RingReader.open(ring.path)
    assert not isinstance(caught.value, f.RingCorruptError)


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_cut_file_is_seen(size: int, tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    with ring.path.open("r+b") as file:
        file.truncate(size)

    with pytest.raises(f.RingCorruptError):
        RingReader.open(ring.path)


def test_a_file_that_is_cut_while_in_use_is_seen(tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    reader = RingReader.open(ring.path)
    with ring.path.open("r+b") as file:
        file.truncate(f.HEADER_BYTES)

    with pytest.raises(f.RingCorruptError, match="cut"):
        reader.snapshot()


@pytest.mark.parametrize("cursor", [1, 7 * RECORD + 4, 1 << 40])
def test_impossible_cursors_are_seen(cursor: int, tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    overwrite(ring.path, (f.lane_word(0) + f.L_WRITE) * 8, struct.pack("@Q", cursor))

    with pytest.raises(f.RingCorruptError):
        RingReader.open(ring.path).snapshot()


@pytest.mark.parametrize("size", [0, 8, HEADER.size + 1, 1 << 20])
def test_a_record_of_impossible_size_is_seen(size: int, tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    overwrite(ring.path, f.HEADER_BYTES + RECORD, struct.pack("@I", size))
    reader = RingReader.open(ring.path)

    with pytest.raises(f.RingCorruptError, match="record"):
        take(reader)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    ring = two_lanes(tmp_path)
    link = tmp_path / "link.ring"
    link.symlink_to(ring.path)

    with pytest.raises(OSError, match="link"):
        RingReader.open(link)


def test_fill_is_that_of_the_fullest_lane(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, lanes=2)
    in_another_thread(Recorder(ring), 10)
    record_reads(Recorder(ring), 160)

    assert RingReader.open(ring.path).fill == pytest.approx(160 * RECORD / 32768)
