"""Batches are consecutive facts of one boot, at most 900 KB before compression, and can be taken apart."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from engine_hooks import ring_format as f
from engine_hooks.batch import MAX_BODY_BYTES, Batch, describe, next_batch, split
from engine_hooks.recorder import Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_format import RingCorruptError
from engine_hooks.ring_reader import RingReader
from engine_hooks.spans import SpanSource
from tests.engine_hooks.receiver import decode
from tests.engine_hooks.support import a_leg, a_ring, page_list, record_reads


def fragmented(count: int, seed: int) -> list[int]:
    pages = list(range(0, 2 * count, 2))
    random.Random(seed).shuffle(pages)
    return pages


def batches_of(ring: Ring, limit: int = MAX_BODY_BYTES) -> list[Batch]:
    reader = RingReader.open(ring.path)
    source = SpanSource(reader.emitter, reader.boot)
    snapshot = reader.snapshot()
    batches = []
    while (batch := next_batch(reader, snapshot, source, limit)) is not None:
        batches.append(batch)
        reader.commit()
    return batches


def a_queue_of(directory: Path, *counts: int) -> Ring:
    """A ring with one fact for each count, of so many fragmented pages."""
    ring = a_ring(directory, capacity=8 << 20, lanes=1)
    recorder = Recorder(ring)
    for seed, count in enumerate(counts):
        pages = page_list(*fragmented(count, seed))
        assert recorder.transfer_queued(a_leg(), pages=pages, chunk_page=0, chunk_tokens=1, sender_pages=1)
    return ring


def test_no_body_is_larger_than_900_kb_and_no_fact_is_missing(tmp_path: Path) -> None:
    sizes = random.Random(1)
    batches = batches_of(a_queue_of(tmp_path, *(sizes.randrange(6000) for _ in range(100))))

    assert len(batches) > 2
    assert max(len(batch.body) for batch in batches) <= 900_000
    assert [sent.seq for batch in batches for sent in decode(batch.body)] == list(range(1, 101))


def test_a_body_is_filled_well_before_another_is_begun(tmp_path: Path) -> None:
    batches = batches_of(a_queue_of(tmp_path, *[500] * 300))

    assert min(len(batch.body) for batch in batches[:-1]) > 700_000


def test_a_fact_that_is_larger_by_itself_goes_alone(tmp_path: Path) -> None:
    batches = batches_of(a_queue_of(tmp_path, 10, 120_000, 10))

    assert [(batch.first, batch.last) for batch in batches] == [(1, 1), (2, 2), (3, 3)]
    assert len(batches[1].body) > 900_000


def test_an_estimate_that_was_too_low_is_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_hooks.batch.wire_size", lambda span: 1)
    batches = batches_of(a_queue_of(tmp_path, *[500] * 40), limit=50_000)

    assert max(len(batch.body) for batch in batches) <= 50_000
    assert [sent.seq for batch in batches for sent in decode(batch.body)] == list(range(1, 41))


def test_a_batch_names_its_facts_and_one_emitter(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    record_reads(Recorder(ring), 5)

    (batch,) = batches_of(ring)

    assert (batch.emitter, batch.boot, batch.first, batch.last) == ("host1/decode", ring.boot.hex(), 1, 5)
    assert {(sent.emitter, sent.boot) for sent in decode(batch.body)} == {(batch.emitter, batch.boot)}


def test_only_the_last_batch_of_a_snapshot_attests_its_time(tmp_path: Path) -> None:
    batches = batches_of(a_queue_of(tmp_path, *[500] * 300))

    assert [batch.attests_ns > 0 for batch in batches] == [False] * (len(batches) - 1) + [True]


def test_facts_before_a_damaged_record_still_come_out(tmp_path: Path) -> None:
    ring = a_ring(tmp_path, lanes=1)
    record_reads(Recorder(ring), 5)
    with ring.path.open("r+b") as file:
        file.seek(f.HEADER_BYTES + 3 * 104 + 4)
        file.write(struct.pack("@B", 250))  # the fourth fact is of a span that no contract has
    reader = RingReader.open(ring.path)
    snapshot, source = reader.snapshot(), SpanSource(reader.emitter, reader.boot)

    batch = next_batch(reader, snapshot, source)
    assert batch is not None
    assert (batch.first, batch.last, batch.attests_ns) == (1, 3, 0)
    reader.commit()
    with pytest.raises(RingCorruptError, match="code 250"):
        next_batch(reader, snapshot, source)


def test_a_message_splits_into_halves_that_hold_all_of_it(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    record_reads(Recorder(ring), 7)
    (batch,) = batches_of(ring)

    halves = split(batch.body)

    assert halves is not None
    assert [len(decode(half)) for half in halves] == [3, 4]
    assert [sent for half in halves for sent in decode(half)] == decode(batch.body)


def test_a_single_span_does_not_split(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    record_reads(Recorder(ring), 1)
    (batch,) = batches_of(ring)

    assert split(batch.body) is None


def test_a_description_names_spans_and_seqs_and_no_values(tmp_path: Path) -> None:
    (batch,) = batches_of(a_queue_of(tmp_path, 3))

    text = describe(batch.body)

    assert text.startswith("pagewitness.transfer (seq 1,")
    assert decode(batch.body)[0].values["tenant.id"] not in text
