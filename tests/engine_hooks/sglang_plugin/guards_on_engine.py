"""The engine's own guards, set off inside its environment without a server and without a GPU.

The engine's own code runs, with the hooks on it; what stands in is what it gets: a canary's log with one violation in
it, a metadata slot that names another room, a request whose checksum does not fit. Run with the engine's interpreter,
it says on stdout, as JSON, what was recorded for each.
"""

from __future__ import annotations

import inspect
import json
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from engine_hooks.sglang_plugin.attach import attach
from engine_hooks.sglang_plugin.described import describe
from engine_hooks.sglang_plugin.table import parse_version, targets_for
from tests.engine_hooks.sglang_plugin.support import Rig, word_of
from tests.support import fake_sglang as fake

ROW, POSITION, SLOT = 1, 5, 2
PARTS = ("alarms", "transfer", "slots")


def rig_on_engine(folder: Path) -> Rig:
    """The plugin's parts, with their hooks on the engine's functions."""
    import sglang
    from sglang.srt.plugins import hook_registry

    rig = Rig(folder)
    rows = targets_for(parse_version(sglang.__version__), "control")
    wanted = [row for row in rows if row.handler.partition(".")[0] in PARTS and "commit" in row.path + row.handler]
    wanted += [row for row in rows if row.handler.startswith("alarms.")]
    attach(wanted, rig.parts.handlers, rig.parts.boundary, hook_registry)
    hook_registry.HookRegistry.apply_hooks()
    return rig


def request(rig: Rig, rid: str, **given: Any) -> fake.Req:
    req = rig.admit(fake.Req(rid))
    for name, value in ({"bootstrap_host": "10.0.0.1", "return_logprob": False, "logprob": None} | given).items():
        setattr(req, name, value)
    return req


def canary(rig: Rig, mode: str) -> None:
    """The canary's reporter finds one violation in its log: the chain at a position of a running request."""
    from sglang.srt.kv_canary.config import CanaryMode
    from sglang.srt.kv_canary.runner.violation_reporter import ViolationReporter

    req = request(rig, f"canary-{mode}")
    req.kv = fake.Kv(ROW, 12, 12)
    slot = int(rig.cache.table[ROW, POSITION])
    pool = SimpleNamespace(req_to_token=torch.from_numpy(rig.cache.table))
    rig.scheduler = fake.Scheduler(running_batch=SimpleNamespace(reqs=[req]), req_to_token_pool=pool)
    rig.alarms.watch(rig.scheduler)
    rig.legs.limits.canary = mode
    log = SimpleNamespace(
        violation_write_index=torch.tensor([1]),
        violation_ring=torch.tensor([[0, slot, POSITION, 11, 22, 33, 44, 1]], dtype=torch.int64),
    )
    reporter = ViolationReporter(
        config=SimpleNamespace(mode=CanaryMode(mode)), device_state=SimpleNamespace(violation_log=log)
    )
    try:
        reporter.log_or_raise_violation(outer_step_counter=9)
    except RuntimeError:
        if mode != "raise":
            raise


def room_check(rig: Rig, named: int) -> None:
    """Decode is about to commit a slot that names another room, or none."""
    from sglang.srt.disaggregation.decode import DecodeTransferQueue
    from sglang.srt.disaggregation.utils import MetadataBuffers

    known = {"size": 4, "hidden_size": 8, "hidden_states_dtype": torch.float32, "max_sampling_mask_tokens": 4}
    wanted = inspect.signature(MetadataBuffers.__init__).parameters
    buffers = MetadataBuffers(**{name: value for name, value in known.items() if name in wanted})
    buffers.bootstrap_room[SLOT, 0] = named
    req = request(rig, f"room-{named}")
    rig.reserve(req, 10, 11, 12)
    queue = SimpleNamespace(
        metadata_buffers=buffers, scheduler=SimpleNamespace(kv_checksum_computer=None, metrics_collector=None)
    )
    receiver = SimpleNamespace(clear=lambda: None)
    decode_req = SimpleNamespace(req=req, metadata_buffer_index=SLOT, kv_receiver=receiver, is_rebootstrap=False)
    DecodeTransferQueue._commit_transfer_to_req(queue, decode_req)


def checksum(rig: Rig) -> None:
    """The KV that decode received is not what prefill sent. The request holds nothing that would have to be freed."""
    from sglang.srt.disaggregation.decode import SchedulerDisaggregationDecodeMixin

    req = request(rig, "checksum")
    req.kv = SimpleNamespace(req_pool_idx=ROW, holds_kv=False, is_kv_released=True, holds_mamba=False)  # type: ignore[assignment]
    scheduler = SimpleNamespace(
        output_streamer=SimpleNamespace(stream_output=lambda *_: None),
        tree_cache=SimpleNamespace(supports_mamba=lambda: True),
        metrics_reporter=SimpleNamespace(enable_metrics=False),
    )
    SchedulerDisaggregationDecodeMixin._handle_kv_checksum_mismatch(scheduler, req, "a message")


def protections() -> list[str]:
    """What the configuration would say of a decode queue of this engine."""
    from sglang.srt.disaggregation.decode import DecodeTransferQueue

    queue = object.__new__(DecodeTransferQueue)
    queue.enable_deferred_kv_release, queue.deferred_kv_release_timeout = True, 30.0
    scheduler = SimpleNamespace(server_args=SimpleNamespace(), disagg_decode_transfer_queue=queue)
    return list(describe(scheduler)["safety"])


def main() -> None:
    logging.disable()
    scenes: dict[str, Callable[[Rig], None]] = {
        "canary that logs": lambda rig: canary(rig, "log"),
        "canary that raises": lambda rig: canary(rig, "raise"),
        "another room": lambda rig: room_check(rig, 99),
        "no room": lambda rig: room_check(rig, 0),
        "checksum": checksum,
    }
    said: dict[str, Any] = {"protections": protections()}
    with tempfile.TemporaryDirectory() as folder:
        rig = rig_on_engine(Path(folder))
        for name, play in scenes.items():
            if name == "checksum" and "--without-checksum" in sys.argv:
                continue
            before = len(rig.facts)
            play(rig)
            new = rig.facts[before:]
            said[name] = {
                "words": [word_of(fact) for fact in new],
                "alarms": [
                    {key.removeprefix("pagewitness."): str(value) for key, value in fact.values.items()}
                    | {"of a leg": fact.leg is not None}
                    for fact in new
                    if fact.span.name == "pagewitness.alarm"
                ],
            }
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
