"""Requests that decode serves without any transfer: over pages that nobody wrote, and over what others left.

A client chooses the address of the prefill node. With the one that the engine uses for its own warm-up, decode takes
the transfer for done and answers with HTTP 200 whatever its pages hold. Decode's pool of 64 pages is filled by ordinary
traffic after the first of these requests and before the others. Prompts are whole pages and answers leave whole pages.
"""

from __future__ import annotations

from lab.engine.checks import Check, Run
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.story import Story
from lab.engine.traffic import Ask
from lab.engine.truth import NEVER_WRITTEN

ON_NOTHING = "kestrel"
ON_OTHERS = ("juniper", "zenith")

_OTHERS = ("acme", "orion", "nimbus", "harbor", "lumen", "quarry", "vertex")


def tell(stage: Stage) -> None:
    """One over a pool that is still empty, then ordinary requests until all of it was used, then two more."""
    stage.play([Ask(ON_NOTHING, 96, fake=True)])
    stage.play(Ask(tenant, 160) for tenant in _OTHERS)
    stage.play(Ask(tenant, 320, fake=True) for tenant in ON_OTHERS)
    stage.play(Ask(tenant, 160) for tenant in ("acme", ON_NOTHING))


def fakes_are_answered(run: Run) -> list[str]:
    """Decode answered each of them with HTTP 200 to the end, and prefill had no part in it."""
    return [
        f"the fake {o.rid}: prefill {o.prefill_status}, decode {o.status} {o.finish!r}"
        for o in run.outcomes
        if o.fake and (o.prefill_status, o.status, o.finish) != (0, 200, "length")
    ]


def one_read_what_was_never_written(run: Run) -> list[str]:
    """The first of them read nothing but slots that nothing ever wrote."""
    response = run.response(_rids(run, ON_NOTHING)[0])
    if response and response.slots and {slot.via for slot in response.slots} == {NEVER_WRITTEN}:
        return []
    return [f"the fake request of {ON_NOTHING} did not read never-written slots alone"]


def the_others_read_others(run: Run) -> list[str]:
    """The later ones read bytes of several other tenants, and their answers hold markers of them."""
    found = []
    for tenant in ON_OTHERS:
        (rid,) = _rids(run, tenant)
        response = run.response(rid)
        owners = {run.tenant(slot.owner) for slot in response.foreign if slot.owner} if response else set()
        if len(owners - {tenant}) < 2:
            found.append(f"the fake request of {tenant} read bytes of {sorted(owners)}, not of two other tenants")
        if not any(o.rid == rid and o.echoed for o in run.outcomes):
            found.append(f"the answer to the fake request of {tenant} holds no marker of another tenant")
    return found


def _rids(run: Run, tenant: str) -> list[str]:
    return [outcome.rid for outcome in run.outcomes if outcome.fake and outcome.tenant == tenant]


_CHECKS: tuple[Check, ...] = (fakes_are_answered, one_read_what_was_never_written, the_others_read_others)

STORY = Story(
    name="fake",
    about="a client names the address at which decode takes every transfer for done: it answers over unwritten pages",
    tell=tell,
    settings=lambda version: PairSettings(version=version, truth=True, decode_tokens=1024),
    checks=lambda _: _CHECKS,
)
