"""Requests that are aborted through the engine's own endpoint: on both nodes or on one, early and late.

A router that gives up on a request tells both nodes; one that loses sight of a node tells the other alone. Decode's
pool of 64 pages is nearly filled by each of these requests: straight after it an ordinary one gets pages that were
reserved for it, while the other node may still be at work.
"""

from __future__ import annotations

from dataclasses import replace

from lab.engine.checks import Check, Run
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.disconnected import LONG, slow_settings
from lab.engine.stories.story import FIXED, VULNERABLE, Story
from lab.engine.traffic import ABORTED, Ask, room_of

BOTH, ON_DECODE, ON_PREFILL, ANSWERING = "kestrel", "juniper", "zenith", "vertex"
"""Tenants whose request is aborted: during the transfer on both nodes or on one, and on decode while it answers."""


def tell(stage: Stage) -> None:
    """Each abort, and straight after it an ordinary request."""
    stage.play([Ask("acme", 64, 33)])
    for tenant, roles, follower in (
        (BOTH, ("prefill", "decode"), "orion"),
        (ON_DECODE, ("decode",), "nimbus"),
        (ON_PREFILL, ("prefill",), "harbor"),
    ):
        pending = stage.begin(Ask(tenant, LONG, 33))
        stage.wait_for("prefill", "write", pending, 3)
        stage.abort(pending, roles)
        stage.play([Ask(follower, 256, 33)])
    pending = stage.begin(Ask(ANSWERING, 64, 200))
    stage.wait_for("decode", "write", pending, 10)
    stage.abort(pending, ("decode",))
    stage.play(Ask(tenant, 64, 33) for tenant in ("lumen", BOTH, ON_DECODE))


def aborted_transfers_are_not_read(run: Run) -> list[str]:
    """Decode read none of the requests that were aborted during their transfer."""
    during = {o.rid for o in run.outcomes if o.did == ABORTED and o.tenant != ANSWERING}
    found = [f"{r.rid} was aborted during its transfer, and read" for r in run.truth.responses if r.rid in during]
    return found if len(during) == 3 else [f"{len(during)} requests were aborted during their transfer, not 3"]


def others_got_their_pages(run: Run) -> list[str]:
    """Pages that were reserved for each of them were read by a later request."""
    found = []
    for outcome in run.outcomes:
        if outcome.did != ABORTED or outcome.tenant == ANSWERING:
            continue
        reserved = [each for each in run.records.snapshots if each.room == room_of(outcome.rid)]
        until = max((each.t for each in reserved), default=0)
        later = {slot for read in run.records.reads if read.t > until for slot in read.slots}
        if not any(later & each.hash_of.keys() for each in reserved):
            found.append(f"nobody got a page that was reserved for {outcome.rid}")
    return found


def the_aborted_answer_ends_early(run: Run) -> list[str]:
    """The one that was aborted while it was answered has part of its answer."""
    (outcome,) = (o for o in run.outcomes if o.did == ABORTED and o.tenant == ANSWERING)
    done = sum(len(w.slots) for w in run.records.writes if (w.role, w.rid) == ("decode", outcome.rid))
    return [] if 0 < done < 199 else [f"decode wrote {done} tokens of the answer to {outcome.rid}"]


_CHECKS: tuple[Check, ...] = (aborted_transfers_are_not_read, others_got_their_pages, the_aborted_answer_ends_early)


def settings(version: str) -> PairSettings:
    """A slow pair with a small pool on decode."""
    slow = slow_settings(version)
    small = {"decode": ("--num-reserved-decode-tokens", "64")}
    return replace(slow, decode_tokens=1024, role_arguments={**slow.role_arguments, **small})


STORY = Story(
    name="aborted",
    about="requests are aborted on both nodes or on one, during their transfer and while they are answered",
    tell=tell,
    settings=settings,
    checks=lambda _: _CHECKS,
    versions=(VULNERABLE, FIXED),  # the second holds aborted pages back until their transfer is over
)
