"""Steps: which token positions a forward covered or attended over.

The hook runs after every forward of the engine, so it does next to nothing for a leg that it has already seen decode:
one attribute, three comparisons. It touches CPU tensors only.
"""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin.dialects import row_of
from engine_hooks.sglang_plugin.legs import LEG, Legs, LegState
from engine_hooks.sglang_plugin.sharing import Sharing


class Steps:
    """The hook after `Scheduler.run_batch`."""

    def __init__(self, legs: Legs, sharing: Sharing) -> None:
        self._legs = legs
        self._sharing = sharing

    def after_run_batch(self, result: Any, scheduler: Any, batch: Any, *_: Any, **__: Any) -> None:
        """A decode step attends over its sequence; an extend step computes [prefix, end)."""
        mode = batch.forward_mode
        if mode.is_decode():
            self._decoded(scheduler, zip(batch.reqs, batch.seq_lens_cpu.tolist(), strict=False))
        elif mode.is_extend():
            self._extended(scheduler, batch)

    def _decoded(self, scheduler: Any, steps: Any) -> None:
        for req, tokens in steps:
            state: LegState | None = getattr(req, LEG, None)
            if state is None or not state.read_tokens or state.ended or state.owner != id(req):
                self.decoded(scheduler, req, tokens)
            elif tokens > state.read_tokens:
                state.read_tokens = tokens

    def decoded(self, scheduler: Any, req: Any, tokens: int) -> LegState | None:
        """A decode step of one request, after which it has so many tokens. The leg, or None if it is over."""
        state: LegState | None = getattr(req, LEG, None)
        if state is None or state.ended or state.owner != id(req):
            state = self._legs.admit(req)
            if state is None:
                return None
        if tokens > state.read_tokens:
            if state.read_tokens:
                state.read_tokens = tokens
            else:
                self._first_read(scheduler, req, state, tokens)
        return state

    def _first_read(self, scheduler: Any, req: Any, state: LegState, tokens: int) -> None:
        recorder = self._legs.recorder
        if recorder is None:
            return
        state.first_read = state.read_tokens = tokens
        state.row = row = row_of(req)
        generation = getattr(scheduler.req_to_token_pool, "req_generation", None)
        if generation is not None and generation.device.type == "cpu":
            state.row_generation = int(generation[row])
        recorder.read(state.leg, phase="first", tokens=tokens, row=row, row_generation=state.row_generation)

    def _extended(self, scheduler: Any, batch: Any) -> None:
        ends = batch.seq_lens_cpu.tolist()
        decoding = {id(req) for req in getattr(batch, "decoding_reqs", None) or ()}  # in a mixed batch
        for req, start, end in zip(batch.reqs, batch.prefix_lens, ends, strict=False):
            if id(req) in decoding:
                self._decoded(scheduler, ((req, end),))
                continue
            state = self._legs.admit(req)
            if state is None:
                continue
            if state.computed_start is None:  # later chunks of the same prompt start where the one before ended
                state.computed_start = start
                if start and self._legs.limits.role != "decode":  # there, a match is known from the transfer
                    self._sharing.matched(state, start)
            state.computed_end = max(state.computed_end, end)
