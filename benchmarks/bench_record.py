"""What one fact costs the thread that records it.

Each call of the recorder is timed by itself, the cost of reading the clock taken off. A fact is a release of pages
(one `struct` of its fields, and the page ids). The floor is what no recorder can do without: one `struct.pack_into` and
one copy of the same bytes into the same kind of memory. `less the copy` is what the fact costs beyond copying its
page ids: the goal is 2 microseconds or less. Nothing drains the ring while it is measured.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns

from engine_hooks.recorder import Leg, Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_reader import RingReader

TITLE = "Recording a fact, on the scheduler thread"
PAGES = (0, 94, 1024, 16384)
CALLS = 20_000
TURN = 200
RING_BYTES = 64 << 20
LESS_COPY = "{} less the copy"
GOALS = {LESS_COPY.format(f"{pages} page ids") if pages else "0 page ids": 2.0 for pages in PAGES}
_RECORD = struct.Struct("@IBBxxQQ40sIIBI?qqq")  # the header and the body of a release fact


def run(calls: int = CALLS) -> dict[str, float | dict[str, float]]:
    """Rows by number of page ids, in microseconds."""
    rows: dict[str, float | dict[str, float]] = {}
    clocks: list[int] = []
    with _memory_folder() as folder:
        for pages in PAGES:
            ids = array("i", range(0, 2 * pages, 2))
            record, floor, copy, clock = _measure(folder, ids, calls)
            clocks += clock
            free = _quantiles(clock)[0]
            name = f"{pages} page ids"
            spread = _spread(record, free)
            least, copied = (_spread(times, free)["p50 (us)"] for times in (floor, copy))
            rows[name] = spread | {"floor p50 (us)": least, "to floor": spread["p50 (us)"] / least}
            if pages:
                rows[LESS_COPY.format(name)] = {"p50 (us)": spread["p50 (us)"] - copied}
    rows["reading the clock, taken off"] = {"p50 (us)": _quantiles(clocks)[0] / 1000}
    return rows


def _measure(folder: Path, ids: array[int], calls: int) -> tuple[list[int], ...]:
    """Nanoseconds of each call: the recorder, the floor, the copy alone, nothing. They take turns, so that another
    load on the machine meets them all alike."""
    ring = Ring.create(folder, "bench/recorder", capacity=RING_BYTES, lanes=1)
    recorder, reader = Recorder(ring), RingReader.open(ring.path)
    leg = Leg(b"u" * 16, b"t" * 16, "p1", "customer")

    def record() -> bool:
        return recorder.release(
            leg, mode="immediate", pages=ids, complete=True, prefix_tokens=0, written_start=1500, written_end=1564
        )

    actions: list[Callable[[], object]] = [record, *_floor(folder, ids), lambda: None]
    times: tuple[list[int], ...] = ([], [], [], [])
    while len(times[0]) < calls:
        for action, measured in zip(actions, times, strict=True):
            measured += _time(action, TURN)
        snapshot = reader.snapshot()
        while reader.next(snapshot) is not None:
            pass
        reader.commit()
    if reader.drops or reader.hook_errors:
        raise RuntimeError(f"{reader.drops} facts were dropped and {reader.hook_errors} failed: nothing was measured")
    ring.close()
    ring.path.unlink()
    return times


def _floor(folder: Path, ids: array[int]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Packing and copying the same bytes into memory like the ring's, and copying the page ids alone."""
    size = _RECORD.size + len(ids) * 4
    slots = RING_BYTES // size
    with (folder / "floor").open("w+b") as file:
        file.truncate(slots * size)
        memory = mmap.mmap(file.fileno(), slots * size)
    memory.write(b"\1" * len(memory))  # touched once, as the ring's memory is
    identity, place = b"i" * 40, 0

    def pack_and_copy() -> None:
        nonlocal place
        at = place % slots * size
        place += 1
        _RECORD.pack_into(memory, at, size, 5, 0, 7, 8, identity, 1, 63, 0, len(ids) * 4, True, 0, 1500, 1564)
        memory[at + _RECORD.size : at + size] = ids

    def copy() -> None:
        nonlocal place
        at = place % slots * size
        place += 1
        memory[at + _RECORD.size : at + size] = ids

    return pack_and_copy, copy


def _time(action: Callable[[], object], calls: int) -> list[int]:
    """Nanoseconds of each call."""
    times = []
    for _ in range(calls):
        start = perf_counter_ns()
        action()
        times.append(perf_counter_ns() - start)
    return times


def _quantiles(times: list[int]) -> tuple[float, float, float, float]:
    ordered = sorted(times)
    last = len(ordered) - 1
    return ordered[last // 2], ordered[last * 9 // 10], ordered[last * 99 // 100], ordered[last]


def _spread(times: list[int], clock: float) -> dict[str, float]:
    names = ("p50 (us)", "p90 (us)", "p99 (us)", "max (us)")
    return {name: (value - clock) / 1000 for name, value in zip(names, _quantiles(times), strict=True)}


@contextmanager
def _memory_folder() -> Iterator[Path]:
    """A folder on a memory file system, where rings belong; elsewhere only if there is none."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


if __name__ == "__main__":
    import sys

    from benchmarks.__main__ import main

    sys.exit(main(["bench_record"]))
