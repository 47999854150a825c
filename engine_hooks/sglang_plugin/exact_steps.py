"""Steps, exact tier: one record for each forward of a batch, with every row that took part."""

from __future__ import annotations

from array import array
from typing import Any

from engine_hooks.sglang_plugin.dialects import row_of
from engine_hooks.sglang_plugin.legs import LEG, Legs, LegState
from engine_hooks.sglang_plugin.steps import Steps

_NONE = array("i")


class ExactSteps:
    """The hook after `Scheduler.run_batch`, in the place of the control tier's, which it calls first. It touches CPU
    tensors only."""

    def __init__(self, legs: Legs, control: Steps) -> None:
        self._legs = legs
        self._control = control

    def after_run_batch(self, result: Any, scheduler: Any, batch: Any, *_: Any, **__: Any) -> None:
        """What each row of the batch read and wrote. The forward may still be under way: later facts of this process
        come after it in the order of its stream."""
        self._control.after_run_batch(result, scheduler, batch)
        mode = batch.forward_mode
        recorder = self._legs.recorder
        if recorder is None or batch.seq_lens_cpu is None or not batch.reqs:
            return
        ends = batch.seq_lens_cpu.numpy().astype("int32")
        if mode.is_decode():
            word, starts = "decode", ends - 1
        elif mode.is_extend() and not mode.is_prebuilt():
            word, starts = "extend", _int32(batch.prefix_lens)
            if len(starts) != len(ends):
                recorder.hook_error()
                return
        else:
            return  # nothing ran: an idle step, or a batch that decode builds from a transfer
        rows = array("i")
        for place, req in enumerate(batch.reqs):
            state: LegState | None = getattr(req, LEG, None)
            rows.append(row_of(req))
            if state is None or state.over or state.owner != id(req):
                continue  # a request that this process never saw arrive
            state.steps += 1
            if word == "extend":
                recorder.write(state.leg, purpose="prefill", start=int(starts[place]), end=int(ends[place]))
        recorder.step(mode=word, rows=rows, row_generations=_generations(scheduler, rows), starts=starts, ends=ends)


def _int32(numbers: Any) -> Any:
    import numpy

    return numpy.asarray(numbers, "int32")


def _generations(scheduler: Any, rows: array[int]) -> Any:
    """The generation of each row, where the engine counts them on the CPU; else none."""
    found = getattr(scheduler.req_to_token_pool, "req_generation", None)
    if found is None or found.device.type != "cpu":
        return _NONE
    return found.numpy()[rows].astype("int32")
