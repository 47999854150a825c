"""A stand-in for SGLang, for tests of the hooks' own order and boundary. It is not the engine.

It has the attributes that the hooks look at, and calls the hooks in the order in which SGLang 0.5.19 and 0.5.23 call
the functions they hang on (read in its source, and seen on the real engine by the tests marked `engine`). What the real
engine does is proved there and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

PAGE = 4
"""Tokens a page of the stand-in."""
SESSION = "10.0.0.1:4000"


class FINISH_LENGTH:  # noqa: N801 - the engine's own name, which the hooks go by
    pass


class FINISH_MATCHED_TOKEN:  # noqa: N801
    pass


class FINISH_ABORT:  # noqa: N801
    def __init__(self, message: str = "Aborted", status_code: int | None = None) -> None:
        self.message = message
        self.status_code = status_code


class ForwardMode(Enum):
    EXTEND = 1
    DECODE = 2
    IDLE = 3
    PREBUILT = 4

    def is_decode(self) -> bool:
        return self is ForwardMode.DECODE

    def is_extend(self) -> bool:
        return self in (ForwardMode.EXTEND, ForwardMode.PREBUILT)

    def is_prebuilt(self) -> bool:
        return self is ForwardMode.PREBUILT


class Tensor:
    """A CPU or GPU tensor as far as the hooks look. Touching the values of a GPU one fails the test."""

    def __init__(self, values: Any, device: str = "cpu") -> None:
        self._values = np.asarray(values)
        self.device = SimpleNamespace(type=device)

    def numpy(self) -> Any:
        assert self.device.type == "cpu", "a hook touched a tensor on the GPU"
        return self._values

    def tolist(self) -> list[Any]:
        return list(self.numpy().tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):  # a part of a table: nobody looks at the values yet
            return Tensor(self._values[index], self.device.type)
        return self.numpy()[index]

    def numel(self) -> int:
        return int(self._values.size)

    def element_size(self) -> int:
        return int(self._values.itemsize)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._values.shape)


class MetadataBuffers:
    """Slots for what goes beside the pages; of each, the room that it names. Not on the CPU if `device` says so."""

    def __init__(self, device: str = "cpu") -> None:
        self._rooms = np.zeros((4, 8), dtype=np.uint64)
        self.bootstrap_room = Tensor(self._rooms, device)

    def fill(self, slot: int, room: int) -> None:
        self._rooms[slot, 0] = room


@dataclass
class Kv:
    req_pool_idx: int | None = None
    kv_allocated_len: int = 0
    kv_committed_len: int = 0

    @property
    def holds_kv(self) -> bool:
        return self.req_pool_idx is not None


@dataclass(eq=False)
class Req:
    rid: Any = "request-1"
    origin_input_ids: list[int] = field(default_factory=lambda: [7] * 10)
    bootstrap_room: Any = 11
    cache_salt: Any = None
    stream: bool = False
    output_ids: list[int] = field(default_factory=list)
    finished_reason: Any = None
    send_token_offset: int = 0
    kv: Kv = field(default_factory=Kv)
    disagg_kv_sender: Any = None
    extra_key: Any = None
    metadata_buffer_index: int = 2

    @property
    def seqlen(self) -> int:
        return len(self.origin_input_ids) + len(self.output_ids)


class Device:
    """Copies from a device that arrive when the test says so: `start` is what the hooks call to begin one."""

    def __init__(self, *, fails: bool = False) -> None:
        self.arrived = False
        self._fails = fails

    def start(self, tensor: Tensor) -> tuple[Tensor, Any]:
        if self._fails:
            raise RuntimeError("out of memory")
        return Tensor(tensor._values.copy()), self

    def query(self) -> bool:
        return self.arrived


def pages(*ids: int) -> Any:
    return np.array(ids, dtype=np.int32)


@dataclass
class Manager:
    """A KV transfer manager."""

    transfer_infos: dict[Any, dict[str, Any]] = field(default_factory=dict)
    request_status: dict[Any, int] = field(default_factory=dict)
    failure_records: dict[Any, str] = field(default_factory=dict)
    kv_args: Any = None

    def get_session_id(self) -> str:
        return SESSION


@dataclass(eq=False)
class Sender:
    kv_mgr: Manager
    bootstrap_room: Any
    num_kv_indices: int = 0
    curr_idx: int = 0


@dataclass(eq=False)
class Receiver:
    kv_mgr: Manager
    bootstrap_room: Any


def transfer_info(ids: Any, *, dummy: bool = False, prefix: int = 0, slot: int = 3) -> Any:
    return SimpleNamespace(dst_kv_indices=ids, is_dummy=dummy, decode_prefix_len=prefix, dst_aux_index=slot)


class Cache:
    """A prefix cache with the request-to-token table beside it: 8 rows of 64 slots, row r holding pages from 10 * r."""

    def __init__(self, *, shares: bool = False, device: str = "cpu") -> None:
        rows = [[(10 * row + slot // PAGE) * PAGE + slot % PAGE for slot in range(64)] for row in range(8)]
        self.table = np.array(rows, dtype=np.int32)
        self.req_to_token_pool = SimpleNamespace(req_to_token=Tensor(self.table, device))
        self.disable = not shares
        self._shares = shares

    def supports_prefix_sharing(self) -> bool:
        return self._shares

    def move(self, row: int, first_page: int, ids: list[int]) -> None:
        """Other pages take the place of a row's own, as when the cache had the same prefix already."""
        for place, page in enumerate(ids, start=first_page):
            self.table[row, place * PAGE : (place + 1) * PAGE] = np.arange(page * PAGE, (page + 1) * PAGE)


def scheduler() -> Any:
    generations = Tensor([5] * 8)
    return SimpleNamespace(req_to_token_pool=SimpleNamespace(req_generation=generations))


def decode_batch(*steps: tuple[Req, int]) -> Any:
    lengths = Tensor([tokens for _, tokens in steps])
    return SimpleNamespace(forward_mode=ForwardMode.DECODE, reqs=[req for req, _ in steps], seq_lens_cpu=lengths)


def extend_batch(*steps: tuple[Req, int, int], decoding: tuple[Req, ...] = ()) -> Any:
    return SimpleNamespace(
        forward_mode=ForwardMode.EXTEND,
        reqs=[req for req, _, _ in steps],
        prefix_lens=[start for _, start, _ in steps],
        seq_lens_cpu=Tensor([end for _, _, end in steps]),
        decoding_reqs=list(decoding),
    )


def modules(version: str = "0.5.23", **parallel: int) -> dict[str, ModuleType]:
    """The few modules that the plugin imports by name, for `sys.modules`."""
    ranks = {"tp_rank": 0, "pp_rank": 0, "attn_tp_size": 1, **parallel}
    package, srt, context = ModuleType("sglang"), ModuleType("sglang.srt"), ModuleType("sglang.srt.runtime_context")
    package.__version__ = version  # type: ignore[attr-defined]
    context.get_parallel = lambda: SimpleNamespace(**ranks)  # type: ignore[attr-defined]
    plugins, registry = ModuleType("sglang.srt.plugins"), ModuleType("sglang.srt.plugins.hook_registry")
    registry.HookRegistry = Registry()  # type: ignore[attr-defined]
    registry.HookType = HookType  # type: ignore[attr-defined]
    plugins.hook_registry = registry  # type: ignore[attr-defined]
    made = (package, srt, context, plugins, registry, *_cache_modules())
    return {module.__name__: module for module in made}


def _cache_modules() -> tuple[ModuleType, ...]:
    """Where the plugin looks what the key of the prefix cache is made of."""
    managers, batch = ModuleType("sglang.srt.managers"), ModuleType("sglang.srt.managers.schedule_batch")
    memory, radix = ModuleType("sglang.srt.mem_cache"), ModuleType("sglang.srt.mem_cache.radix_cache")
    batch.Req = NewReq  # type: ignore[attr-defined]
    radix.RadixKey = RadixKey  # type: ignore[attr-defined]
    return managers, batch, memory, radix


class NewReq:
    """`Req` as its constructor looks."""

    def __init__(self, rid: str, lora_id: str | None = None) -> None: ...


class RadixKey:
    """A key of the prefix cache from 0.5.18 on."""

    def __init__(self, token_ids: Any, extra_key: str | None = None, cache_salt: str | None = None) -> None: ...


class HookType(Enum):
    BEFORE = "before"
    AFTER = "after"


class Registry:
    """The engine's registry as far as it goes: it keeps what it is given and says what it applied."""

    def __init__(self) -> None:
        self.registered: list[tuple[str, Any, HookType]] = []
        self._patched: set[str] = set()

    def register(self, path: str, hook: Any, kind: HookType) -> None:
        self.registered.append((path, hook, kind))

    def apply(self, *, but: str = "") -> None:
        self._patched |= {path for path, _, _ in self.registered if path != but}


class Allocator(SimpleNamespace):
    """A pool's allocator, as far as the hooks look: it can be referred to weakly."""


class Scheduler(SimpleNamespace):
    """A scheduler; unlike a plain namespace, it can be referred to weakly."""


def node(role: str = "decode", **given: Any) -> Any:
    """A scheduler as it looks when it has been built."""
    pool = SimpleNamespace(dtype="torch.bfloat16", layer_num=32)
    arguments = {
        "served_model_name": "lab-echo", "model_path": "models/echo", "port": 31001,
        "tp_size": 1, "pp_size": 1, "dp_size": 1, "enable_dp_attention": False,
        "disaggregation_transfer_backend": "mooncake",
    }  # fmt: skip
    return Scheduler(
        server_args=SimpleNamespace(**(arguments | given)),
        disaggregation_mode=SimpleNamespace(value=role),
        max_req_input_len=2042,
        max_total_num_tokens=2048,
        model_config=SimpleNamespace(context_len=4096),
        token_to_kv_pool_allocator=Allocator(page_size=16, get_kvcache=lambda: pool),
        req_to_token_pool=SimpleNamespace(),
        tree_cache=Cache(shares=role == "prefill"),
    )
