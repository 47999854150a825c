"""The incident as fleets: one model whose prefill pool is smaller than its context, and a neighbour.

A prompt longer than the prefill pool was answered by a one-token placeholder until the nodes were corrected, on
9 September 2026 at 19:40 UTC. How many such prompts customers sent is a property of the scenario, whatever the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from lab.fleet.faults import Injection
from lab.fleet.spec import FleetSpec, Planted, TrafficSpec

MODEL, NEIGHBOUR = "atlas-1m", "atlas-mini"
CONTEXT = 1_048_576
"""Tokens that the model takes."""
POOL = 681_280
"""Tokens that a prefill node of it holds."""
PAGE = 64

BEGIN = datetime(2026, 8, 26, tzinfo=UTC)
"""When the simulation begins: a day before, so that the pools hold everybody's pages."""
OPENED = datetime(2026, 8, 27, tzinfo=UTC)
CORRECTED = datetime(2026, 9, 9, 19, 40, tzinfo=UTC)
ENDS = datetime(2026, 9, 10, tzinfo=UTC)

AFFECTED = 155
"""Prompts of customers that were longer than the pool, before the correction."""
LEFT_OUT = {"internal": 9, "researcher": 14}
"""The same of traffic that is none of a customer's."""
AFTER = 5
"""Prompts of customers that were, after it."""

SEEDS = (1, 7, 23, 101, 4_711)
"""Of the traffic, for those who want to see that the number does not depend on one."""

FEWEST = 3_000
"""Requests, of both models. With fewer, hardly any would arrive between the correction and the end."""

_LONGEST_OUTPUT = 800
_TENANTS = 120
_OF = {"internal": _TENANTS - 2, "researcher": _TENANTS - 1}
"""Whose tests these are, and who the researcher is: the tenants that ask for least."""


def _since_begin(moment: datetime) -> float:
    return (moment - BEGIN).total_seconds()


def fleets(seed: int, requests: int) -> tuple[FleetSpec, FleetSpec]:
    """The affected model, and its neighbour with one in ten of the requests. Raises ValueError for too few."""
    if requests < FEWEST:
        raise ValueError(f"{requests} requests are too few for 14 days: take {FEWEST} or more")
    beside = requests // 10
    return _affected_model(seed, requests - beside), _neighbour(seed, beside)


def _affected_model(seed: int, requests: int) -> FleetSpec:
    corrected = _since_begin(CORRECTED)
    return FleetSpec(
        seed=seed,
        requests=requests,
        prefill_pages=POOL // PAGE,
        decode_pages=24_576,
        page_size=PAGE,
        chunk_tokens=8_192,
        traffic=_traffic(requests, typical=2_000, longest=200_000),
        planted=tuple(_planted(requests)),
        injections=(Injection("reject_placeholder", 1.0, 0.0, corrected),),
        **_common(MODEL),
    )


def _planted(requests: int) -> Iterator[Planted]:
    opened, corrected, ends = map(_since_begin, (OPENED, CORRECTED, ENDS))
    long = (POOL + 1, CONTEXT - _LONGEST_OUTPUT)
    yield Planted(AFFECTED, "customer", opened, corrected - 600, *long)
    for label, count in LEFT_OUT.items():
        yield Planted(count, label, opened, corrected - 600, *long, tenant=_OF[label])
        yield Planted(requests // 100, label, opened, ends, 50, 20_000, tenant=_OF[label])
    yield Planted(AFTER, "customer", corrected + 600, ends - 600, *long)


def _neighbour(seed: int, requests: int) -> FleetSpec:
    return FleetSpec(
        seed=seed + 1,
        requests=requests,
        prefill_nodes=1,
        decode_nodes=1,
        prefill_pages=2_048,
        decode_pages=4_096,
        page_size=PAGE,
        chunk_tokens=8_192,
        traffic=_traffic(requests, typical=800, longest=100_000),
        **_common(NEIGHBOUR),
    )


def _traffic(requests: int, typical: int, longest: int) -> TrafficSpec:
    seconds = _since_begin(ENDS) + 86_400  # traffic goes on for a day or so
    return TrafficSpec(
        tenants=_TENANTS,
        per_second=requests / seconds,
        typical_prompt=typical,
        prompt_spread=1.4,
        longest_prompt=longest,
        longest_output=_LONGEST_OUTPUT,
        internal=0.0,
        researcher=0.0,
    )


def _common(model: str) -> dict[str, Any]:
    return {"model": model, "name": model, "start": BEGIN, "flush_seconds": 900.0, "heartbeat_seconds": 900.0}
