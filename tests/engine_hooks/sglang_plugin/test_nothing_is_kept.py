"""Nothing of the engine lives longer for the hooks: no request, no tensor, no array, no sender or receiver.

Not even until the next garbage collection, which engines put off: what the engine lets go of is gone at once.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["control", "exact"])
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Held:
    """Weak references to what the engine had in hand, by name."""

    def __init__(self) -> None:
        self._refs: dict[str, Callable[[], Any]] = {}

    def __call__(self, name: str, thing: Any) -> Any:
        self._refs[name] = weakref.ref(thing)
        return thing

    def alive(self) -> list[str]:
        return [name for name, ref in self._refs.items() if ref() is not None]


def whole_decode_leg(rig: Rig, held: Held) -> None:
    req = rig.admit(held("request", fake.Req()))
    receiver = held("receiver", fake.Receiver(rig.manager, req.bootstrap_room))
    rig.transfer.after_create_receiver(SimpleNamespace(kv_receiver=receiver), None, req)
    req.kv = fake.Kv(1, 10, 10)
    rig.transfer.before_send_metadata(receiver, held("page ids", fake.pages(10, 11, 12)), 2, None, decode_prefix_len=0)
    rig.commit(req)
    rig.step(req)
    rig.step(req)
    rig.finish(req)


def whole_prefill_leg(rig: Rig, held: Held) -> None:
    req = rig.admit(held("request", fake.Req()))
    rig.extend(req, 0, 10)
    info = fake.transfer_info(held("destination ids", fake.pages(1, 2, 3)))
    sender = held("sender", rig.bootstrap(req, info))
    rig.manager.transfer_infos.clear()
    rig.send(sender, held("page ids", fake.pages(20, 21, 22)), 10)
    rig.finish(req)


def retracted_leg(rig: Rig, held: Held) -> None:
    req = rig.admit(held("request", fake.Req()))
    rig.reserve(req, 10, 11, 12)
    rig.commit(req)
    rig.step(req)
    rig.release(req)
    rig.parts.handlers["release"].before_reset(req)
    rig.admit(req, is_retracted=True)
    rig.stream_abort(req)


def rejected_leg(rig: Rig, held: Held) -> None:
    req = rig.arrive(held("request", fake.Req()))
    rig.reject(req)
    rig.stream_abort(req, status=400)


def leg_that_never_ends(rig: Rig, held: Held) -> None:
    req = rig.admit(held("request", fake.Req()))
    rig.reserve(req, 10, 11, 12)


def leg_of_a_failed_hook(rig: Rig, held: Held) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError

    req = rig.admit(held("request", fake.Req()))
    batch = SimpleNamespace(reqs=[req])
    rig.parts.boundary.guard("hook", fail)(None, None, batch)
    rig.finish(req)


LIVES = (
    ("decode", whole_decode_leg),
    ("prefill", whole_prefill_leg),
    ("decode", retracted_leg),
    ("prefill", rejected_leg),
    ("decode", leg_that_never_ends),
    ("decode", leg_of_a_failed_hook),
)


@pytest.mark.parametrize(("role", "life"), LIVES, ids=lambda value: getattr(value, "__name__", value))
def test_what_the_engine_lets_go_of_is_gone(
    tmp_path: Path, tier: str, role: str, life: Callable[[Rig, Held], None]
) -> None:
    rig, held = Rig(tmp_path, role=role, tier=tier), Held()
    life(rig, held)
    assert rig.story()
    assert held.alive() == []


def test_a_table_on_a_device_is_not_kept_until_its_copy_arrives(tmp_path: Path, tier: str) -> None:
    rig, held = Rig(tmp_path, tier=tier), Held()
    device = rig.on_device()
    held("table", rig.cache.req_to_token_pool.req_to_token)
    whole_decode_leg(rig, held)
    rig.cache.req_to_token_pool.req_to_token = None
    assert rig.story()[-1] == "response:length", "the leg's end does not wait for the copy"
    assert held.alive() == []
    device.arrived = True
    rig.stream()
    assert rig.story()[-1] == "end:finished"


@pytest.mark.parametrize("role", ["decode", "prefill"])
def test_page_ids_are_not_kept_while_their_leg_lives(tmp_path: Path, tier: str, role: str) -> None:
    """They may lie in pinned memory, of which there is little."""
    rig, held = Rig(tmp_path, role=role, tier=tier), Held()
    req = rig.admit(fake.Req())
    if role == "decode":
        receiver = fake.Receiver(rig.manager, req.bootstrap_room)
        rig.transfer.after_create_receiver(SimpleNamespace(kv_receiver=receiver), None, req)
        rig.transfer.before_send_metadata(receiver, held("page ids", fake.pages(10, 11)), 2, None, decode_prefix_len=0)
    else:
        rig.extend(req, 0, 8)
        rig.send(rig.bootstrap(req), held("page ids", fake.pages(20, 21)), 8)
    assert held.alive() == []
