"""SGLang plugin of the lab that writes down what the KV memory really held. It knows nothing of pagewitness.

It hashes *slots*: the bytes of one token position over all layers, keys and values. In the scheduler process of each
node it appends JSON lines to ``$LAB_TRUTH_DIR/<role>-<pid>.jsonl``:

| kind | when | says |
|---|---|---|
| `start` | the scheduler is made | role, engine version, page size, slots, hash of an untouched slot |
| `write` | after each forward | per request: rid, first position, slots, their hashes now |
| `reuse` | the engine gave a request slots of its prefix cache | rid, slots of the first positions, their hashes |
| `snapshot` | decode, just before it tells prefill which pages to fill | room, slots of these pages, their hashes |
| `read` | decode, before the first step of a request, and after each retraction | rid, room, slots, hashes |
| `last` | decode, before a request's pages are released | rid, slots of every position, their hashes |
| `error` | a hook of this plugin failed | where, what: the truth is then worthless |

Every line has the `rank` of its process; each rank has a pool, and so a truth, of its own. Times are CLOCK_MONOTONIC in
ns, one clock for all processes of the machine. Without the variable nothing is hooked.

``LAB_TRUTH_PAUSE_MS=prefill=100,decode=20`` makes each forward of these roles take that much longer, so that there is
time for something to happen meanwhile; it changes no byte.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import sglang

DIR_SETTING = "LAB_TRUTH_DIR"
PAUSE_SETTING = "LAB_TRUTH_PAUSE_MS"
HASH_BYTES = 8

ROOM = "_lab_truth_room"
"""What this plugin writes on a receiver: not every kind of them keeps its room."""

RECEIVERS = (
    "sglang.srt.disaggregation.mooncake.conn.MooncakeKVReceiver.send_metadata",
    "sglang.srt.disaggregation.fake.conn.FakeKVReceiver.send_metadata",
)
ENQUEUE = "sglang.srt.disaggregation.decode.DecodePreallocQueue._create_receiver_and_enqueue"
MATCH = "sglang.srt.disaggregation.decode.DecodePreallocQueue._match_prefix_and_lock"
RELEASE = "sglang.srt.mem_cache.common.release_kv_cache"
SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"


class Witness:
    """The state of one scheduler process: its pool, its file, and who has read already."""

    def __init__(self, scheduler: Any) -> None:
        from sglang.srt.runtime_context import get_parallel

        pool = scheduler.token_to_kv_pool_allocator.get_kvcache()
        self._buffers = [buffer.numpy() for buffer in (*pool.k_buffer, *pool.v_buffer)]
        self._rows = scheduler.req_to_token_pool.req_to_token
        self.role = str(scheduler.disaggregation_mode.value)
        self.rank = int(get_parallel().tp_rank)
        self.pause = _pauses().get(self.role, 0.0)
        self.page_size = int(scheduler.token_to_kv_pool_allocator.page_size)
        self._read: set[str] = set()
        self._begun: set[str] = set()
        path = Path(os.environ[DIR_SETTING]) / f"{self.role}-{os.getpid()}.jsonl"
        self._file = path.open("a", buffering=1)  # for the life of the process: a line reaches the file at once
        untouched = hashlib.blake2b(bytes(len(self._bytes([0])[0])), digest_size=HASH_BYTES).hexdigest()
        self.note(
            "start", role=self.role, version=sglang.__version__, page_size=self.page_size,
            slots=int(scheduler.token_to_kv_pool_allocator.size), untouched=untouched,
        )  # fmt: skip

    def note(self, kind: str, **fields: Any) -> None:
        """Append one line."""
        self._file.write(json.dumps({"kind": kind, "t": time.monotonic_ns(), "rank": self.rank, **fields}) + "\n")

    def _bytes(self, slots: list[int]) -> list[bytes]:
        parts = [
            numpy.ascontiguousarray(buffer[slots]).reshape(len(slots), -1).view(numpy.uint8) for buffer in self._buffers
        ]
        return [row.tobytes() for row in numpy.concatenate(parts, axis=1)]

    def _hashes(self, slots: list[int]) -> list[str]:
        if not slots:
            return []
        return [hashlib.blake2b(content, digest_size=HASH_BYTES).hexdigest() for content in self._bytes(slots)]

    def _slots_of(self, req: Any, length: int) -> list[int]:
        return [int(slot) for slot in self._rows[req.kv.req_pool_idx, :length].tolist()]

    def before_forward(self, batch: Any) -> None:
        """Decode: what each request that has not read yet is about to read."""
        if not batch.forward_mode.is_decode():
            return
        for req, length in zip(batch.reqs, batch.seq_lens_cpu.tolist(), strict=True):
            if req.rid in self._read:
                continue
            self._read.add(req.rid)
            slots = self._slots_of(req, length - 1)  # the last position is the one that this step writes
            self.note("read", rid=req.rid, room=req.bootstrap_room, slots=slots, hashes=self._hashes(slots))

    def after_forward(self, batch: Any) -> None:
        """What the forward wrote, request by request; and of which prefix, when it is a request's first."""
        mode = batch.forward_mode
        if mode.is_decode():
            starts = [length - 1 for length in batch.seq_lens_cpu.tolist()]
            counts = [1] * len(starts)
        elif mode.is_extend() and not mode.is_prebuilt():
            starts, counts = list(batch.prefix_lens), list(batch.extend_lens)
        else:
            return  # idle, or a batch that decode builds without a forward: nothing was written
        written = batch.out_cache_loc.tolist()
        if len(written) != sum(counts):
            raise ValueError(f"{len(written)} slots for {sum(counts)} tokens in a {mode.name} batch")
        done = 0
        for req, start, count in zip(batch.reqs, starts, counts, strict=True):
            slots = written[done : done + count]
            done += count
            if mode.is_extend() and start and req.rid not in self._begun:
                self.reused(req.rid, self._slots_of(req, int(start)))
            self._begun.add(req.rid)
            self.note("write", rid=req.rid, start=int(start), slots=slots, hashes=self._hashes(slots))

    def reused(self, rid: str, slots: list[int]) -> None:
        """The engine gave a request these slots for its first positions."""
        self.note("reuse", rid=rid, slots=slots, hashes=self._hashes(slots))

    def before_publishing(self, room: Any, pages: Any) -> None:
        """Decode: what the pages held before prefill could know of them."""
        size = self.page_size
        slots = [int(page) * size + offset for page in pages for offset in range(size)]
        self.note("snapshot", room=room, slots=slots, hashes=self._hashes(slots))

    def before_release(self, req: Any) -> None:
        """Decode: what a request's pages hold after its last step, or the last one before it was retracted."""
        if self.role != "decode" or req.rid not in self._read or req.kv is None or req.kv.req_pool_idx is None:
            return
        slots = self._slots_of(req, req.kv.kv_allocated_len)
        self.note("last", rid=req.rid, slots=slots, hashes=self._hashes(slots))
        self._read.discard(req.rid)


def _pauses() -> dict[str, float]:
    """Seconds by role."""
    said = [part.split("=") for part in os.environ.get(PAUSE_SETTING, "").split(",") if part]
    return {role: int(milliseconds) / 1000 for role, milliseconds in said}


_witness: Witness | None = None


def _hook(function: Callable[..., None]) -> Callable[..., None]:
    """Nothing may reach the engine from here; a failure is a line in the file, and fails the capture."""

    @functools.wraps(function)
    def safe(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the engine
            if _witness is None:
                print(f"lab_truth: {function.__name__}: {error!r}", flush=True)
            else:
                _witness.note("error", where=function.__name__, what=repr(error))

    return safe


@_hook
def _made(_result: Any, scheduler: Any, *_args: Any, **_kwargs: Any) -> None:
    global _witness
    _witness = Witness(scheduler)


@_hook
def _before_forward(_scheduler: Any, batch: Any, *_args: Any, **_kwargs: Any) -> None:
    assert _witness is not None
    _witness.before_forward(batch)


@_hook
def _after_forward(_result: Any, _scheduler: Any, batch: Any, *_args: Any, **_kwargs: Any) -> None:
    assert _witness is not None
    _witness.after_forward(batch)
    time.sleep(_witness.pause)


@_hook
def _enqueued(result: Any, _queue: Any, req: Any, *_args: Any, **_kwargs: Any) -> None:
    setattr(result.kv_receiver, ROOM, req.bootstrap_room)


@_hook
def _before_publishing(receiver: Any, kv_indices: Any, *_args: Any, **_kwargs: Any) -> None:
    assert _witness is not None
    _witness.before_publishing(getattr(receiver, ROOM), kv_indices)


@_hook
def _matched(result: Any, _queue: Any, req: Any, *_args: Any, **_kwargs: Any) -> None:
    assert _witness is not None
    slots = [int(slot) for slot in result.prefix_indices.tolist()]
    if slots:
        _witness.reused(req.rid, slots)


@_hook
def _before_release(req: Any, _tree_cache: Any, *_args: Any, **_kwargs: Any) -> None:
    assert _witness is not None
    _witness.before_release(req)


def register() -> None:
    """Entry point of the group ``sglang.srt.plugins``."""
    if not os.environ.get(DIR_SETTING):
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(f"{SCHEDULER}.__init__", _made, HookType.AFTER)
    HookRegistry.register(f"{SCHEDULER}.run_batch", _before_forward, HookType.BEFORE)
    HookRegistry.register(f"{SCHEDULER}.run_batch", _after_forward, HookType.AFTER)
    HookRegistry.register(ENQUEUE, _enqueued, HookType.AFTER)
    HookRegistry.register(MATCH, _matched, HookType.AFTER)
    for target in RECEIVERS:
        HookRegistry.register(target, _before_publishing, HookType.BEFORE)
    HookRegistry.register(RELEASE, _before_release, HookType.BEFORE)
