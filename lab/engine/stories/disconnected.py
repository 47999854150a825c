"""Clients that go away: before the transfer of their request, during it, and after it, while the answer is made.

Prompts are computed in chunks of 32 tokens, and each takes a tenth of a second more than it needs: a long prompt is
under way for some seconds, its pages transferred chunk by chunk. The engine looks for the client once a second.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.engine.checks import Check, Run, nothing_is_affected
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.story import Story
from lab.engine.traffic import HUNG_UP, Ask, Outcome

LONG = 896
ANSWER = 200
CHUNK = 32

BEFORE, DURING, AFTER = "quarry", "kestrel", "vertex"
"""Tenants whose client goes away then."""

_SLOW: Mapping[str, int] = {"prefill": 100, "decode": 20}


def slow_settings(version: str, **environment: str) -> PairSettings:
    """A pair on which a transfer takes long enough for something to happen meanwhile."""
    return PairSettings(
        version=version,
        truth=True,
        pause_ms=_SLOW,
        environment={"SGLANG_REQUEST_STATE_WAIT_TIMEOUT": "1", **environment},
        role_arguments={"prefill": ("--chunked-prefill-size", str(CHUNK))},
    )


def tell(stage: Stage) -> None:
    """Each kind of leaving, with ordinary requests around it that take over the pages."""
    stage.play(Ask(tenant, 64, 33) for tenant in ("acme", "orion"))
    during = stage.begin(Ask(DURING, LONG, 33))
    stage.wait_for("prefill", "write", during, 3)
    stage.hang_up(during)
    stage.play(Ask(tenant, 64, 33) for tenant in ("nimbus", "harbor"))
    busy = stage.begin(Ask("juniper", 640, 33))
    stage.wait_for("prefill", "write", busy, 1)
    before = stage.begin(Ask(BEFORE, 64, 33))  # it waits behind the other, its pages on decode reserved
    stage.wait_for("decode", "snapshot", before)
    stage.hang_up(before)
    stage.end(busy)
    after = stage.begin(Ask(AFTER, 64, ANSWER))
    stage.wait_for("decode", "write", after, 10)
    stage.hang_up(after)
    stage.play(Ask(tenant, 64, 33) for tenant in ("lumen", DURING, BEFORE, AFTER))


def _gone(run: Run, tenant: str) -> Outcome:
    return next(outcome for outcome in run.outcomes if outcome.did == HUNG_UP and outcome.tenant == tenant)


def _tokens(run: Run, role: str, rid: str) -> int:
    return sum(len(write.slots) for write in run.records.writes if (write.role, write.rid) == (role, rid))


def they_got_no_answer(run: Run) -> list[str]:
    """Nobody who went away got an answer."""
    return [f"{o.rid} was answered {o.status}" for o in run.outcomes if o.did == HUNG_UP and o.status]


def one_left_before(run: Run) -> list[str]:
    """Decode had reserved pages for it and was never to read them: its client left while it waited for prefill."""
    rid = _gone(run, BEFORE).rid
    return [f"{rid} was read on decode"] if run.response(rid) else []


def one_left_during(run: Run) -> list[str]:
    """Prefill had computed some of its prompt and not all when it ended, and decode never read it."""
    rid = _gone(run, DURING).rid
    done = _tokens(run, "prefill", rid)
    if 0 < done < LONG and run.response(rid) is None:
        return []
    return [f"prefill computed {done} of {LONG} tokens of {rid}; decode read it: {run.response(rid) is not None}"]


def one_left_after(run: Run) -> list[str]:
    """Decode had begun to answer it, and stopped before the end."""
    rid = _gone(run, AFTER).rid
    done = _tokens(run, "decode", rid)
    return [] if run.response(rid) and 0 < done < ANSWER - 1 else [f"decode wrote {done} tokens of the answer to {rid}"]


_CHECKS: tuple[Check, ...] = (
    nothing_is_affected,
    they_got_no_answer,
    one_left_before,
    one_left_during,
    one_left_after,
)

STORY = Story(
    name="disconnected",
    about="clients go away before, during and after the transfer of their request",
    tell=tell,
    settings=slow_settings,
    checks=lambda _: _CHECKS,
)
