"""A stand-in for a device, for machines that have none: it fails where a hook would wait for one.

Its tensors say that they are on `cuda`, and hold their numbers on the CPU. Whatever would make the calling thread wait
for a real device raises: reading a number (`item`, `tolist`, `bool`, `numpy`), an output whose size depends on numbers
(`nonzero`, `unique`, a boolean mask), a copy to the CPU that does not say `non_blocking`, or one into memory that is
not pinned. Asynchronous copies arrive when the test says so; until then their memory holds -1.

Not found: a wait inside an extension, and `torch.cuda.synchronize`, which these hooks never name.

Run with the engine's interpreter, it drives one whole leg of each role through the hooks of both tiers, and says on
stdout, as JSON, what was recorded and what was caught.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine_hooks.facts import Fact
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.sglang_plugin.support import Rig, word_of
from tests.support import fake_sglang as fake

CUDA = torch.device("cuda", 0)
_NAMES = frozenset((
    "item", "tolist", "numpy", "cpu", "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select",
    "is_nonzero", "equal", "allclose", "bincount", "__bool__", "__int__", "__float__", "__index__", "__array__",
    "__contains__", "__repr__", "__str__", "__format__",
))  # fmt: skip
_OPERATIONS = frozenset((
    "_local_scalar_dense", "item", "nonzero", "_unique2", "unique_consecutive", "unique_dim", "masked_select",
    "is_nonzero", "equal", "bincount",
))  # fmt: skip


class SynchronousCopyError(RuntimeError):
    """Something would have waited for the device."""


caught: list[str] = []


def _refuse(what: str) -> None:
    caught.append(what)
    raise SynchronousCopyError(what)


class DeviceTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor that says it is on a device."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == torch.Tensor.device.__get__:
            return CUDA
        if func == torch.Tensor.is_cuda.__get__:
            return True
        name = func.__name__
        if name in _NAMES:
            _refuse(name)
        if name in ("to", "copy_", "type"):
            _check_copy(name, args, kwargs)
        if name in ("__getitem__", "__setitem__") and _selects(args[1]):
            _refuse(f"{name} with a mask")
        return super().__torch_function__(func, types, args, kwargs)


def _selects(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8) for part in parts)


def _check_copy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if name == "copy_":
        into, source = args[0], args[1]
        if isinstance(into, DeviceTensor):
            return
        if not (kwargs.get("non_blocking") or args[2:3] == (True,)):
            _refuse("copy_ without non_blocking")
        if not isinstance(into, PinnedTensor):
            _refuse("copy_ into memory that is not pinned")
        assert isinstance(source, DeviceTensor)
    else:
        wanted = [*args[1:], *kwargs.values()]
        if any(str(one) == "cpu" for one in wanted) or isinstance(args[1:2] and args[1], torch.Tensor):
            _refuse(f"{name} the CPU")


class PinnedTensor(torch.Tensor):  # type: ignore[misc]
    """Pinned memory of the CPU: a copy into it is under way until the device has come to its end."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ == "copy_" and isinstance(args[1], DeviceTensor):
            _check_copy("copy_", args, kwargs or {})
            device.under_way.append((args[0], args[1].as_subclass(torch.Tensor).clone()))
            return args[0]
        return super().__torch_function__(func, types, args, kwargs)


class Guard(TorchDispatchMode):  # type: ignore[misc]
    """The second net, below the first: what reaches the operations themselves."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        if name in _OPERATIONS and any(isinstance(arg, DeviceTensor) for arg in args):
            _refuse(f"aten::{name}")
        return func(*args, **(kwargs or {}))


class Device:
    """The copies under way, and the events behind them."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Any, Any]] = []
        self.passed = 0
        self._recorded = 0

    def arrive(self) -> None:
        """Everything that was asked of the device is done."""
        for into, numbers in self.under_way:
            torch.Tensor.copy_(into.as_subclass(torch.Tensor), numbers)
        self.under_way.clear()
        self.passed = self._recorded

    def event(self) -> Any:
        """An event, as `torch.cuda.Event` makes it."""
        event = SimpleNamespace(number=0)

        def record(*_: Any) -> None:
            self._recorded += 1
            event.number = self._recorded

        def wait(*_: Any) -> None:
            _refuse("Event.synchronize")

        return SimpleNamespace(record=record, query=lambda: event.number <= self.passed, synchronize=wait, wait=wait)


device = Device()


def on_device(values: Any, dtype: Any = torch.int64) -> Any:
    """A tensor of the stand-in."""
    return torch.tensor(values, dtype=dtype).as_subclass(DeviceTensor)


def install() -> None:
    """Have the parts of torch that need a real device answered by this one."""
    plain_empty = torch.empty

    def empty(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
        made = plain_empty(*args, **kwargs)
        return made.fill_(-1).as_subclass(PinnedTensor) if pin_memory else made

    torch.empty = empty
    torch.get_device_module = lambda *_: SimpleNamespace(Event=device.event)


# ---------------------------------------------------------------------- a leg of each role


class Engine:
    """The order in which an engine calls the hooks, with tensors where a GPU node has them."""

    def __init__(self, folder: Path, role: str) -> None:
        self.rig = Rig(folder, role=role, tier="exact")
        self.rig.legs.limits.pool_pages = 64
        table = [[slot + 64 * row for slot in range(64)] for row in range(4)]
        self.rig.cache.req_to_token_pool.req_to_token = on_device(table, torch.int32)
        self.allocator = SimpleNamespace()

    def call(self, handler: str, *args: Any, **kwargs: Any) -> None:
        """One hook, as the engine calls it: behind the boundary, with the guard on."""
        part, _, method = handler.partition(".")
        hook = self.rig.parts.boundary.guard(handler, getattr(self.rig.parts.handlers[part], method))
        with Guard():
            hook(*args, **kwargs)

    def batch(self, req: Any, start: int, end: int, mode: Any) -> Any:
        return SimpleNamespace(
            forward_mode=mode, reqs=[req], prefix_lens=[start], extend_lens=[end - start], decoding_reqs=[],
            seq_lens_cpu=torch.tensor([end]), seq_lens=on_device([end]), out_cache_loc=on_device(range(start, end)),
        )  # fmt: skip

    def run_batch(self, batch: Any) -> None:
        for handler in ("steps.after_run_batch", "exact_steps.after_run_batch"):
            self.call(handler, None, self.rig.scheduler, batch)

    def decode(self, req: Any, prompt: int, steps: int) -> None:
        req.kv.kv_allocated_len = req.kv.kv_committed_len = prompt
        for length in range(prompt, prompt + steps):
            before = self.batch(req, length, length, fake.ForwardMode.DECODE)
            self.call("pages.after_decode", on_device([length]), before, 1)
            req.kv.kv_allocated_len = req.kv.kv_committed_len = length + 1
            self.run_batch(self.batch(req, length, length + 1, fake.ForwardMode.DECODE))
            req.output_ids.append(1)
            self.call("response.before_stream", None, [req], False)

    def extend(self, req: Any, length: int) -> None:
        req.kv = fake.Kv(1, length, length)
        batch = self.batch(req, 0, length, fake.ForwardMode.EXTEND)
        self.call("pages.after_extend", (on_device(range(64, 64 + length)), None, None), batch)
        self.run_batch(batch)

    def finish(self, req: Any) -> None:
        req.finished_reason = fake.FINISH_LENGTH()
        self.call("release.before_release", req, self.rig.cache)
        req.kv = fake.Kv()
        self.call("pages.before_release_ids", self.allocator, on_device([16, 17, 18]))
        self.call("response.before_stream", None, [req], False)


def play(folder: Path, role: str) -> dict[str, Any]:
    """One leg of this role, its asynchronous copies arriving only after its last hook call but one."""
    engine = Engine(folder, role)
    req = fake.Req(f"on-{role}")
    engine.rig.arrive(req)
    if role == "prefill":
        engine.call("admission.after_add", None, engine.rig.scheduler, req)
        engine.extend(req, 10)
    else:
        engine.call("admission.after_add", None, engine.rig.scheduler, req)
        req.kv = fake.Kv(1, 10, 10)
        engine.call("pages.after_prealloc", on_device(range(64, 74)), None, req)
        engine.decode(req, 10, 6)
    engine.finish(req)
    under_way = [word_of(fact) for fact in engine.rig.facts]
    device.arrive()
    engine.call("response.before_stream", None, [], False)
    reader = RingReader.open(engine.rig.ring.path)
    errors = reader.hook_errors
    reader.close()
    facts = engine.rig.facts
    return {
        "under_way": under_way,
        "words": [word_of(fact) for fact in facts],
        "pages": {word_of(fact): _pages(fact) for fact in facts},
        "complete": engine.rig.complete(),
        "hook_errors": errors,
    }


def _pages(fact: Fact) -> list[Any]:
    found: Any = fact.values.get("pagewitness.pages", ())
    return list(found)


PLANTED: dict[str, Callable[[Any], Any]] = {
    "item": lambda tensor: tensor[0].item(),
    "tolist": lambda tensor: tensor.tolist(),
    "numpy": lambda tensor: tensor.numpy(),
    "cpu": lambda tensor: tensor.cpu(),
    "to the CPU": lambda tensor: tensor.to("cpu"),
    "int": lambda tensor: int(tensor[0]),
    "bool": lambda tensor: bool(tensor[0] > 0),
    "a condition": lambda tensor: 1 if (tensor == 1).any() else 0,
    "index": lambda tensor: [1, 2, 3][tensor[0]],
    "nonzero": lambda tensor: tensor.nonzero(),
    "where": lambda tensor: torch.where(tensor > 0),
    "unique": lambda tensor: torch.unique(tensor),
    "a mask": lambda tensor: tensor[tensor > 0],
    "a blocking copy": lambda tensor: torch.empty(3, dtype=torch.int64, pin_memory=True).copy_(tensor),
    "a copy into plain memory": lambda tensor: torch.empty(3, dtype=torch.int64).copy_(tensor, non_blocking=True),
    "waiting for an event": lambda tensor: torch.get_device_module(tensor.device).Event().synchronize(),
    "in": lambda tensor: 1 in tensor,
    "formatting": lambda tensor: f"{tensor}",
}
"""Ways to wait for a device, each of which the stand-in must catch."""


def plant(folder: Path, name: str) -> bool:
    """Whether a hook that does this is caught, and counted as failed."""
    engine = Engine(folder, "decode")
    parts = engine.rig.parts
    parts.handlers["planted"] = SimpleNamespace(hook=lambda tensor: PLANTED[name](tensor))
    before = len(caught)
    engine.call("planted.hook", on_device([1, 0, 2]))
    reader = RingReader.open(engine.rig.ring.path)
    failed = reader.hook_errors == 1
    reader.close()
    return failed and len(caught) == before + 1


def main() -> None:
    """See the module."""
    install()
    with tempfile.TemporaryDirectory() as folder:
        said: dict[str, Any] = {role: play(Path(folder) / role, role) for role in ("prefill", "decode")}
        said["caught"] = list(caught)
        said["planted"] = {name: plant(Path(folder) / f"planted-{number}", name) for number, name in enumerate(PLANTED)}
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
