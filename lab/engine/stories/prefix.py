"""Equal beginnings: who gets pages of whom.

All these prompts are one text. A tenant's own earlier prompt is reused; another tenant's is not, because its salt is
part of the key; requests that nobody vouches for have no salt, and share with each other. Both pools are large enough
that no page is used twice: equal bytes then tell whose they are by their place.
"""

from __future__ import annotations

from lab.engine.checks import Check, Run, nothing_is_affected
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage
from lab.engine.stories.story import Story
from lab.engine.traffic import Ask

SAME, OTHER = "acme", "zenith"
UNSALTED = ("orion", "nimbus")
PAGES = 10

_OPENING = 150
_ANSWER = 33


def _ask(tenant: str, pages: int = PAGES, *, salted: bool = True) -> Ask:
    return Ask(tenant, pages * 16, _ANSWER, opening=_OPENING, salted=salted)


def tell(stage: Stage) -> None:
    """The same text of one tenant twice, of another, of two without a salt; then the first tenant once more."""
    stage.play([_ask(SAME), _ask(SAME, PAGES + 1), _ask(OTHER)])
    stage.play([_ask(tenant, PAGES + number, salted=False) for number, tenant in enumerate(UNSALTED)])
    stage.play([_ask(SAME, PAGES + 2), Ask("harbor", 64, _ANSWER)])


def reuse_follows_the_salt(run: Run) -> list[str]:
    """Each response shares with just those it may share with, at least ten pages where it shares at all."""
    first, again, other, lone, follower, third, _ = (outcome.rid for outcome in run.outcomes)
    may = {first: set(), again: {first}, other: set(), lone: set(), follower: {lone}, third: {first, again}}
    found = []
    for rid, donors in may.items():
        response = run.response(rid)
        shared = response.shared if response else ()
        owners = {slot.owner for slot in shared}
        if not owners <= donors or (donors and len(shared) < (PAGES - 1) * run.truth.page_size):
            found.append(f"{rid} shares {len(shared)} slots of {sorted(owners)}, expected of {sorted(donors)}")
    return found


def reused_by(*roles: str) -> Check:
    """A check that just these roles gave requests pages of their prefix cache."""

    def reuse_is_theirs(run: Run) -> list[str]:
        found = sorted({reuse.role for reuse in run.records.reuses})
        return [] if found == sorted(roles) else [f"pages were reused on {found}, not on {sorted(roles)}"]

    return reuse_is_theirs


_CHECKS: tuple[Check, ...] = (nothing_is_affected, reuse_follows_the_salt)

STORY = Story(
    name="prefix",
    about="two tenants and two requests without a salt send one text: prefill reuses what the salt allows",
    tell=tell,
    settings=lambda version: PairSettings(version=version, truth=True, prefill_tokens=2048, decode_tokens=4096),
    checks=lambda _: (*_CHECKS, reused_by("prefill")),
)

DECODE_STORY = Story(
    name="prefix-decode",
    about="the same where decode has a prefix cache of its own: it reuses pages, and prefill sends the rest",
    tell=tell,
    settings=lambda version: PairSettings(
        version=version,
        truth=True,
        prefill_tokens=2048,
        decode_tokens=4096,
        role_arguments={"decode": ("--disaggregation-decode-enable-radix-cache",)},
    ),
    checks=lambda _: (*_CHECKS, reused_by("prefill", "decode")),
)
