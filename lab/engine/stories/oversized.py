"""Oversized prompts on warm pools, written so that the truth has every shape worth detecting.

Sizes are in tokens, for a prefill pool of 1024 (64 pages of 16) and a decode pool of 2048 (128 pages). Prompts are
whole pages and answers leave whole pages behind, so that no slot of a warm pool is untouched. Which page a request gets
follows from the engine's allocator: free pages in order of their number, starting again when they run short; finished
prompts stay in prefill's prefix cache until the oldest are evicted. Decode reserves 512 tokens beyond a prompt.
`oversized_checks.py` asserts what the story is for, from the truth.
"""

from __future__ import annotations

from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.oversized_checks import checks
from lab.engine.stories.story import FIXED, VULNERABLE, Story
from lab.engine.traffic import Ask

FIRST_VICTIM = "kestrel"
SECOND_VICTIM = "juniper"
TAIL_ONLY_DONOR = "zenith"

_OTHERS = ("acme", "orion", "nimbus", "harbor", "lumen", "quarry", "vertex")
_PROMPT = 160
_SHORT_PROMPT = 16
_LONG_ANSWER = 129


def warm_up() -> list[Ask]:
    """Two rounds of every ordinary tenant: both pools are used up and begin to recycle."""
    return [Ask(tenant, _PROMPT) for tenant in (TAIL_ONLY_DONOR, *_OTHERS)] * 2


def forget_on_decode() -> list[Ask]:
    """One prompt of the tail-only donor, then little for prefill and much for decode.

    Decode's pool is written over until nothing of that donor is left there; its pages on prefill stay, in the prefix
    cache. One of the long answers is the second victim's own: some of what it reads later is its own tenant's.
    """
    turns = [Ask(tenant, _SHORT_PROMPT, _LONG_ANSWER) for tenant in _OTHERS * 2]
    turns[8] = Ask(SECOND_VICTIM, _SHORT_PROMPT, _LONG_ANSWER)
    return [Ask(TAIL_ONLY_DONOR, _PROMPT), *turns]


def fill_prefill() -> list[Ask]:
    """Use prefill's pool up to its last free page: the next prompt there evicts the donor's and gets its page."""
    return [*(Ask(tenant, _PROMPT) for tenant in ("acme", "nimbus", "lumen")), Ask("orion", 144)]


def between() -> list[Ask]:
    """Ordinary traffic that writes over the first victim's first page, and leaves the pages of its answer alone."""
    return [Ask(tenant, _PROMPT) for tenant in ("vertex", "harbor", "quarry")]


def after() -> list[Ask]:
    """Ordinary traffic when all is over, the victims' too: nothing of it is affected."""
    return [Ask(tenant, _PROMPT) for tenant in ("acme", TAIL_ONLY_DONOR, FIRST_VICTIM, SECOND_VICTIM)]


def oversized_story() -> list[Ask]:
    """The whole story. Its two oversized prompts exceed the prefill pool and fit the decode pool."""
    first = Ask(FIRST_VICTIM, 1500, oversized=True)
    second = Ask(SECOND_VICTIM, 1500, oversized=True)
    return [*warm_up(), *forget_on_decode(), *fill_prefill(), first, *between(), second, *after()]


def tell(stage: Stage) -> None:
    """Send it, one request after the other."""
    stage.play(oversized_story())


STORY = Story(
    name="oversized",
    about="prompts that fit decode and not prefill: a vulnerable engine answers them over what earlier requests left",
    tell=tell,
    settings=lambda version: PairSettings(version=version, truth=True),
    checks=checks,
    versions=(VULNERABLE, FIXED),
)
