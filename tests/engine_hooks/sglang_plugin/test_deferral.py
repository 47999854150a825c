"""How a deferred release came about: prefill had stopped writing, or a time was up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake


class Acks:
    """The transfer manager's count of prefill ranks that have stopped writing."""

    def __init__(self, acks: int) -> None:
        self.acks = acks

    def is_abort_release_safe(self, bootstrap_room: Any, required_acks: int) -> bool:
        return self.acks >= required_acks


def deferred(rig: Rig, acks: int, *, times: tuple[float, ...] = (1.0, 2.0), seen: bool = True, **queue: Any) -> str:
    """Mode of the release of a request that waits for two prefill ranks, of which so many have answered. Not `seen`:
    the hook on the end of the deferral is off."""
    req = rig.admit(fake.Req())
    rig.reserve(req, 10, 11, 12)
    decode_req = SimpleNamespace(req=req, kv_receiver=SimpleNamespace(kv_mgr=Acks(acks)), host_staged=True)
    held = SimpleNamespace(_deferred_releases=[(decode_req, *times, 3, 2)], **queue)
    rig.deferral.after_defer(None, held, decode_req)
    if seen:
        rig.deferral.before_do_release(held, decode_req, 3)
    rig.release(req)
    return next(word for word in rig.story(req) if word.startswith("release"))


def test_all_ranks_have_stopped_writing(decode: Rig) -> None:
    assert deferred(decode, acks=2) == "release:deferred"


@pytest.mark.parametrize("times", [(2.0,), (1.0, 2.0)], ids=["0.5.20", "0.5.22"])
def test_the_time_is_up_and_a_rank_may_still_write(decode: Rig, times: tuple[float, ...]) -> None:
    """The engine notes down when the time is up, and in newer versions also when it began."""
    assert deferred(decode, acks=1, times=times) == "release:timeout"


def test_a_deferral_whose_end_no_hook_saw_is_one_all_the_same(decode: Rig) -> None:
    assert deferred(decode, acks=1, seen=False) == "release:deferred"


@pytest.mark.parametrize(
    "queue",
    [{"_is_host_destination": lambda decode_req: True}, {"enable_host_receive": True}],
    ids=["0.5.23", "0.5.21"],
)
def test_the_engine_never_gives_up_on_a_host_destination(decode: Rig, queue: dict[str, Any]) -> None:
    assert deferred(decode, acks=0, **queue) == "release:deferred"
