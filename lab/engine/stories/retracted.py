"""Retraction under memory pressure: decode takes a request's pages away while it is answered, and gives it others.

Decode's pool has 32 pages of 16 tokens and holds back little for answers. Four requests come at once, each grows to 17
pages: when the pool is full, decode copies one's KV to the host, gives its pages to the rest, and restores it later.
"""

from __future__ import annotations

from lab.engine.checks import Check, Run, nothing_is_affected
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.story import Story
from lab.engine.traffic import Ask

PROMPT = 64
ANSWER = 201

_TENANTS = ("acme", "orion", "nimbus", "harbor")


def tell(stage: Stage) -> None:
    """A quiet request, the crowd, and a quiet one."""
    stage.play([Ask("zenith", PROMPT)])
    stage.play_at_once(Ask(tenant, PROMPT, ANSWER) for tenant in _TENANTS)
    stage.play([Ask("zenith", PROMPT)])


def some_were_retracted_and_resumed(run: Run) -> list[str]:
    """At least one request read its KV anew, from other pages, and was answered to its end."""
    resumed = [response for response in run.truth.responses if response.again]
    if not resumed:
        return ["no request was retracted"]
    return [
        f"{response.rid} was resumed in the very pages that it had before"
        for response in resumed
        if {slot.page for slot in response.again} <= {slot.page for slot in response.slots}
    ]


def another_had_the_pages(run: Run) -> list[str]:
    """Pages of a retracted request were another's before it resumed."""
    for response in run.truth.responses:
        first, *again = [read.t for read in run.records.reads if read.rid == response.rid]
        if not again:
            continue
        lost = {slot.page * run.truth.page_size + slot.slot for slot in response.slots}
        for write in run.records.writes:
            between = write.role == "decode" and first < write.t < again[-1] and write.rid != response.rid
            if between and lost & set(write.slots):
                return []
    return ["nobody got a page of a retracted request before it resumed"]


_CHECKS: tuple[Check, ...] = (nothing_is_affected, some_were_retracted_and_resumed, another_had_the_pages)

STORY = Story(
    name="retracted",
    about="decode runs out of pages, takes a request's away, and resumes it in others",
    tell=tell,
    settings=lambda version: PairSettings(
        version=version,
        truth=True,
        decode_tokens=512,
        role_arguments={"decode": ("--num-reserved-decode-tokens", "16")},
    ),
    checks=lambda _: _CHECKS,
)
