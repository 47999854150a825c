"""Steps, exact tier: one record for each forward of a batch, with every row that took part."""

from __future__ import annotations

from array import array
from typing import Any

from engine_hooks.sglang_plugin.dialects import row_of
from engine_hooks.sglang_plugin.legs import LEG, Legs, LegState
from engine_hooks.sglang_plugin.steps import Steps

_NONE = array("i")
_UNKNOWN = -1


class ExactSteps:
    """The hook after `Scheduler.run_batch`, in the place of the control tier's, which it calls first. It touches CPU
    tensors only."""

    def __init__(self, legs: Legs, control: Steps) -> None:
        self._legs = legs
        self._control = control

    def after_run_batch(self, result: Any, scheduler: Any, batch: Any, *_: Any, **__: Any) -> None:
        """What each row of the batch read and wrote. The forward may still be under way: later facts of this process
        come after it in the order of its stream."""
        mode = batch.forward_mode
        if mode.is_decode() and batch.reqs:
            self._decoded(scheduler, batch)
            return
        self._control.after_run_batch(result, scheduler, batch)
        if batch.reqs and mode.is_extend() and not mode.is_prebuilt():
            self._extended(scheduler, batch)
        # else nothing ran: an idle step, or a batch that decode builds from a transfer

    def _decoded(self, scheduler: Any, batch: Any) -> None:
        """The control tier's work and this one's in one loop: most of its cost is to touch each request at all, with
        caches that the forward has emptied. So there is no numpy here either."""
        legs = self._legs
        recorder = legs.recorder
        if recorder is None:
            return
        lengths = batch.seq_lens_cpu.tolist()
        rows: list[int] = []
        generations: list[int] = []
        for req, tokens in zip(batch.reqs, lengths, strict=True):
            state: LegState | None = getattr(req, LEG, None)
            if state is None or not state.read_tokens or state.ended or state.ending or state.owner != id(req):
                state = self._control.decoded(scheduler, req, tokens)
                if state is None:  # its leg is over
                    rows.append(row_of(req))
                    generations.append(_UNKNOWN)
                    continue
            elif tokens > state.read_tokens:
                state.read_tokens = tokens
            state.steps += 1
            rows.append(state.row)  # type: ignore[arg-type] # known since its first read
            generations.append(_UNKNOWN if state.row_generation is None else state.row_generation)
        recorder.step(
            mode="decode",
            rows=array("i", rows),
            row_generations=_NONE if _UNKNOWN in generations else array("i", generations),
            starts=array("i", [tokens - 1 for tokens in lengths]),
            ends=array("i", lengths),
        )

    def _extended(self, scheduler: Any, batch: Any) -> None:
        recorder = self._legs.recorder
        if recorder is None:
            return
        ends, starts = array("i", batch.seq_lens_cpu.tolist()), array("i", batch.prefix_lens)
        if len(starts) != len(ends):
            recorder.hook_error()
            return
        rows = array("i")
        for req, start, end in zip(batch.reqs, starts, ends, strict=True):
            state: LegState | None = getattr(req, LEG, None)
            rows.append(row_of(req))
            if state is None or state.over or state.owner != id(req):
                continue  # its leg is over
            state.steps += 1
            recorder.write(state.leg, purpose="prefill", start=start, end=end)
        recorder.step(mode="extend", rows=rows, row_generations=_generations(scheduler, rows), starts=starts, ends=ends)


def _generations(scheduler: Any, rows: array[int]) -> Any:
    """The generation of each row, where the engine counts them on the CPU; else none."""
    found = getattr(scheduler.req_to_token_pool, "req_generation", None)
    if found is None or found.device.type != "cpu":
        return _NONE
    return found.numpy()[rows].astype("int32")
