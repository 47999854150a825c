"""The oversized prompt on nodes of two tensor-parallel ranks, each with a pool, a process and facts of its own.

Every request has a leg on each rank. The prefill pool has 32 pages and decode's 80; both ranks are told alike, so that
the same pages hold the same requests' bytes on both, which `truth.join` asserts.
"""

from __future__ import annotations

from lab.engine.checks import Check, Run
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.story import Story
from lab.engine.traffic import Ask

VICTIM = "kestrel"
RANKS = 2

_OTHERS = ("acme", "orion", "nimbus", "harbor", "lumen", "quarry")


def tell(stage: Stage) -> None:
    """Ordinary requests until decode's pages were used twice, then the oversized prompt, then ordinary ones again."""
    stage.play(Ask(tenant, 80) for tenant in _OTHERS * 2)
    stage.play([Ask(VICTIM, 640, oversized=True)])
    stage.play(Ask(tenant, 80) for tenant in ("acme", VICTIM))


def each_rank_read(run: Run) -> list[str]:
    """Each rank saw every response."""
    read = {rank: {each.rid for each in run.records.reads if each.rank == rank} for rank in run.records.ranks}
    if len(read) == RANKS and len({frozenset(rids) for rids in read.values()}) == 1:
        return []
    return [f"the ranks saw different responses: { ({rank: len(rids) for rank, rids in read.items()}) }"]


def the_oversized_response_is_affected(run: Run) -> list[str]:
    """It read bytes of several other tenants, and no other response did."""
    (victim,) = run.oversized
    affected = {response.rid: response for response in run.affected()}
    if affected.keys() != {victim.rid}:
        return [f"{len(affected)} responses are affected, not the oversized one alone"]
    owners = {run.tenant(slot.owner) for slot in affected[victim.rid].foreign} - {VICTIM}
    return [] if len(owners) > 1 else [f"the oversized response read bytes of {sorted(owners)}, not of two others"]


_CHECKS: tuple[Check, ...] = (each_rank_read, the_oversized_response_is_affected)

STORY = Story(
    name="ranks",
    about="the same oversized prompt where each node has two tensor-parallel ranks",
    tell=tell,
    settings=lambda version: PairSettings(
        version=version, truth=True, ranks=RANKS, prefill_tokens=512, decode_tokens=1280
    ),
    checks=lambda _: _CHECKS,
)
