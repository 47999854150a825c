"""The prefill scheduler is killed while it computes and transfers a long prompt.

Half of the pages that decode has reserved are filled then. Decode notices by the heartbeat, which is shortened.
"""

from __future__ import annotations

from lab.engine.checks import Check, Run, nothing_is_affected
from lab.engine.stage import Stage
from lab.engine.stories.disconnected import CHUNK, LONG, slow_settings
from lab.engine.stories.story import Story
from lab.engine.traffic import KILLED, Ask

VICTIM = "kestrel"
CHUNKS = 8


def tell(stage: Stage) -> None:
    """Ordinary requests, and the one that prefill does not survive."""
    stage.play(Ask(tenant, 64, 33) for tenant in ("acme", "orion", "nimbus"))
    pending = stage.begin(Ask(VICTIM, LONG, 33))
    stage.wait_for("prefill", "write", pending, CHUNKS)
    stage.kill("prefill", pending)


def it_died_on_the_way(run: Run) -> list[str]:
    """Prefill had computed some of the prompt and not all; decode never read it, and did not answer 200."""
    (outcome,) = (each for each in run.outcomes if each.did == KILLED)
    done = sum(len(w.slots) for w in run.records.writes if (w.role, w.rid) == ("prefill", outcome.rid))
    found = []
    if not CHUNKS * CHUNK <= done < LONG:
        found.append(f"prefill computed {done} of {LONG} tokens before it was killed")
    if run.response(outcome.rid) is not None:
        found.append(f"decode read {outcome.rid}")
    if outcome.status == 200:
        found.append(f"decode answered 200 to {outcome.rid}")
    return found


_CHECKS: tuple[Check, ...] = (nothing_is_affected, it_died_on_the_way)

STORY = Story(
    name="killed",
    about="prefill is killed while it computes and transfers a long prompt",
    tell=tell,
    settings=lambda version: slow_settings(
        version, SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL="2", SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE="1"
    ),
    checks=lambda _: _CHECKS,
    dies=("prefill",),
)
