"""The figures of `make overhead`, from blocks of requests to a real pair."""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.overhead.blocks import FACTS, HOOKS, OFF, ON, ROLES, Blocks, measuring_pair

TITLE = "The hooks in the engine"
COLUMN, TO_RUN_BATCH, TO_10_MS = "us CPU", "to run_batch", "to 10 ms"
REQUEST, FACT = "a request, control tier", "a fact"
REQUESTS = 200
ANSWER_TOKENS = 16
STEPS = {1: (2, 200), 8: (16, 200), 64: (64, 400)}
"""Batch size -> requests and answer tokens of its block: answers long enough that the last request meets the first."""
NEARLY = 0.9
"""A batch that is this full counts: requests arrive and end one by one."""
PAIRS_OF_BLOCKS = 6
GOALS = {FACT: 2.0, REQUEST: 20.0, "a step of 64, exact tier": 100.0}
_STEP_US = 10_000.0
_T_95 = {5: 2.571, 6: 2.447, 7: 2.365, 9: 2.262}
"""Student's t, two-sided 95 %, by degrees of freedom."""

Row = dict[str, float]
Rows = dict[str, float | Row]


def run() -> Rows:
    """All rows, by name; see the package."""
    rows: Rows = {}
    with tempfile.TemporaryDirectory(prefix="overhead-", dir="/var/tmp") as folder:
        with measuring_pair(Path(folder) / "control-tier", "control") as blocks:
            rows |= _control(blocks)
            rows |= _throughput(blocks)
        with measuring_pair(Path(folder) / "exact-tier", "exact") as blocks:
            rows |= _exact(blocks)
    return rows


def figures(rows: Mapping[str, float | Mapping[str, float]]) -> dict[str, Any]:
    """The figures that `make overhead` prints."""

    def of(name: str, column: str = COLUMN) -> float:
        row = rows[name]
        assert isinstance(row, Mapping)
        return round(row[column], 6)

    return {
        "us_per_fact": of(FACT),
        "us_per_request_control": of(REQUEST),
        "us_per_step_exact": {str(size): of(step(size)) for size in STEPS},
        "share_of_10ms_step_exact": of(step(64), TO_10_MS),
        "share_of_run_batch_control": of(REQUEST, TO_RUN_BATCH),
    }


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _control(blocks: Blocks) -> Rows:
    blocks.send(100, ANSWER_TOKENS)  # warm
    _tell("control tier: what a request costs")
    found = blocks.measured(HOOKS, REQUESTS, ANSWER_TOKENS)
    rows: Rows = {}
    spent = {role: _spent_us(found[role]) for role in ROLES}
    forward = sum(ns for role in ROLES for _, ns in found[role]["run_batch"].values()) / 1000
    rows[REQUEST] = {COLUMN: sum(spent.values()) / REQUESTS, TO_RUN_BATCH: sum(spent.values()) / forward}
    for role in ROLES:
        rows[f"its {role} leg"] = {COLUMN: spent[role] / REQUESTS}
    for role in ROLES:
        for name, us, calls in _by_hook(found[role])[:4]:
            rows[f"{role}: {name}"] = {COLUMN: us / REQUESTS, "us a call": us / calls}
    _tell("control tier: what a fact costs")
    facts = blocks.measured(FACTS, REQUESTS, ANSWER_TOKENS)
    calls, us = _facts(facts)
    rows[FACT] = {COLUMN: us / calls, "facts a request": calls / REQUESTS}
    return rows


def _exact(blocks: Blocks) -> Rows:
    blocks.send(100, ANSWER_TOKENS)
    rows: Rows = {}
    for size, (requests, tokens) in STEPS.items():
        _tell(f"exact tier: what a decode step of {size} costs")
        found = blocks.measured(HOOKS, requests, tokens, prompt_tokens=16, at_once=size)["decode"]
        wanted = {f"decode {one}" for one in range(math.ceil(NEARLY * size), size + 1)}
        own = [(hooks, forward) for name, hooks, forward in found["steps"] if name in wanted]
        if len(own) < 20:
            raise RuntimeError(f"only {len(own)} decode steps had a batch of {size}")
        hooks = statistics.median(hooks for hooks, _ in own)
        forward = statistics.median(forward for _, forward in own)
        rows[step(size)] = {COLUMN: hooks / 1000, TO_RUN_BATCH: hooks / forward, TO_10_MS: hooks / 1000 / _STEP_US}
    _tell("exact tier: what a request costs")
    whole = blocks.measured(HOOKS, REQUESTS, ANSWER_TOKENS)
    rows["a request, exact tier"] = {COLUMN: sum(_spent_us(whole[role]) for role in ROLES) / REQUESTS}
    return rows


def step(size: int) -> str:
    """Name of the row of a decode step with a batch of this size."""
    return f"a step of {size}, exact tier"


def _throughput(blocks: Blocks) -> Rows:
    """Seconds of equal blocks with hooks on to off, in pairs: the mean of the ratios, and its 95 % confidence."""
    ratios = []
    for number in range(PAIRS_OF_BLOCKS):
        seconds = {}
        for mode in (OFF, ON) if number % 2 else (ON, OFF):
            blocks.set(mode)
            seconds[mode] = blocks.send(60, ANSWER_TOKENS)
        ratios.append(seconds[ON] / seconds[OFF])
        _tell(f"throughput, pair {number + 1} of {PAIRS_OF_BLOCKS}: on to off {ratios[-1]:.3f}")
    blocks.set(ON)
    mean = statistics.mean(ratios)
    half = _T_95[len(ratios) - 1] * statistics.stdev(ratios) / math.sqrt(len(ratios))
    return {"seconds of a block of 60": {"to hooks off": mean, "95 % from": mean - half, "95 % up to": mean + half}}


def _spent_us(found: dict[str, Any]) -> float:
    return sum(us for _, us, _ in _by_hook(found))


def _by_hook(found: dict[str, Any]) -> list[tuple[str, float, int]]:
    """(hook, microseconds in all, calls), the costliest first, without polls that had no request."""
    costs = [(name, ns / 1000, calls) for name, (calls, ns) in found["hooks"].items() if name != "idle"]
    return sorted(costs, key=lambda cost: -cost[1])


def _facts(found: dict[str, dict[str, Any]]) -> tuple[int, float]:
    """Facts recorded, and microseconds in the recorder."""
    counts = [count for role in ROLES for count in found[role]["facts"].values()]
    return sum(calls for calls, _ in counts), sum(ns for _, ns in counts) / 1000
