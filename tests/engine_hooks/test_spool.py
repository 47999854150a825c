"""The disk queue keeps what it said it keeps, within its bound, over restarts and damage."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pytest

from engine_hooks.batch import Batch
from engine_hooks.spool import Spool

BLOCK = 4096


def a_batch(first: int = 1, boot: str = "b" * 32, body: bytes = b"body", attests_ns: int = 0) -> Batch:
    return Batch("host1/decode", boot, first, first + 9, body, attests_ns)


def drained(spool: Spool) -> list[bytes]:
    bodies = []
    while (entry := spool.oldest()) is not None:
        body = spool.read(entry)
        if body is not None:
            bodies.append(gzip.decompress(body))
            spool.remove(entry)
    return bodies


def test_messages_come_out_oldest_first_with_what_was_said_of_them(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.put(a_batch(1, body=b"one", attests_ns=77))
    spool.put(a_batch(11, body=b"two"))

    entry = spool.oldest()

    assert entry is not None
    assert (entry.emitter, entry.boot, entry.first, entry.last, entry.attests_ns) == (
        "host1/decode",
        "b" * 32,
        1,
        10,
        77,
    )
    assert drained(spool) == [b"one", b"two"]
    assert (len(spool), spool.size, list(tmp_path.iterdir())) == (0, 0, [])


def test_a_restart_finds_everything_in_order_and_goes_on_behind_it(tmp_path: Path) -> None:
    first = Spool(tmp_path, 1 << 20)
    for number in range(12):
        first.put(a_batch(body=b"%d" % number))
    second = Spool(tmp_path, 1 << 20)
    second.put(a_batch(body=b"12"))

    assert second.size == 13 * BLOCK
    assert drained(second) == [b"%d" % number for number in range(13)]


def test_it_takes_no_more_than_its_bound_and_more_when_something_left(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 3 * BLOCK)
    taken = [spool.put(a_batch(number)) for number in range(5)]
    assert taken == [True, True, True, False, False]
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()) <= 3 * BLOCK

    entry = spool.oldest()
    assert entry is not None
    spool.remove(entry)

    assert spool.put(a_batch(9))


def test_the_bound_holds_after_a_restart(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 2 * BLOCK)
    spool.put(a_batch())
    spool.put(a_batch())

    assert not Spool(tmp_path, 2 * BLOCK).put(a_batch())


def test_files_are_private(tmp_path: Path) -> None:
    Spool(tmp_path / "spool", 1 << 20).put(a_batch())

    (path,) = (tmp_path / "spool").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700


def test_a_message_is_on_the_disk_before_put_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr("engine_hooks.spool.os.fsync", fsync)

    Spool(tmp_path, 1 << 20).put(a_batch())

    assert synced == [False, True]  # the file, then the directory that names it


def test_an_unfinished_file_was_never_stored(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000001.otlp.new").write_bytes(b"half")

    assert drained(Spool(tmp_path, 1 << 20)) == []
    assert list(tmp_path.iterdir()) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 0xFF
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scribble(path: Path) -> None:
    path.write_bytes(b'{"format": "other"}\n')


@pytest.mark.parametrize("damage", [cut, flip, empty, scribble])
@pytest.mark.parametrize("restart", [False, True])
def test_a_damaged_file_is_counted_and_kept_aside_and_holds_nothing_up(
    damage: object, restart: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.put(a_batch(body=b"one"))
    spool.put(a_batch(body=b"two"))
    spool.put(a_batch(body=b"three"))
    assert callable(damage)
    damage(tmp_path / "00000000000000000002.otlp")
    if restart:
        spool = Spool(tmp_path, 1 << 20)

    assert drained(spool) == [b"one", b"three"]
    assert spool.broken == 1
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000002.otlp.broken"]
    assert "00000000000000000002.otlp is damaged" in caplog.text


def test_a_file_that_is_gone_holds_nothing_up(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.put(a_batch(body=b"one"))
    spool.put(a_batch(body=b"two"))
    (tmp_path / "00000000000000000001.otlp").unlink()

    assert drained(spool) == [b"two"]
    assert spool.size == 0


def test_damaged_files_count_against_the_bound(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 2 * BLOCK)
    spool.put(a_batch())
    cut(tmp_path / "00000000000000000001.otlp")
    drained(spool)

    assert [spool.put(a_batch()), spool.put(a_batch())] == [True, False]


def test_it_knows_which_boots_it_holds(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.put(a_batch(boot="a" * 32, body=b"a"))
    spool.put(a_batch(boot="c" * 32, body=b"c"))

    other = spool.oldest(without={"a" * 32})

    assert other is not None
    assert other.boot == "c" * 32
    spool.remove(other)
    assert (spool.holds("a" * 32), spool.holds("c" * 32)) == (True, False)


def test_a_disk_that_fails_is_said_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path, 1 << 20)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine_hooks.spool.os.fsync", full)

    assert not spool.put(a_batch())
    assert "No space left" in caplog.text
    assert (list(tmp_path.iterdir()), spool.size) == ([], 0)
