"""Damage to telemetry, by name: what happens to bodies between the agents and the store. It changes no content.

It has a seed of its own, so that one fleet can be damaged in many ways.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.fleet.clock import SECOND

if TYPE_CHECKING:  # the words of a command line need no encoder
    from lab.fleet.agent import Posted

REGISTRY: dict[str, str] = {
    "lost": "A share of the bodies is lost.",
    "crash_tail": "A host that crashes takes along the later half of what its process had left, and its agent's word.",
    "silent_emitter": "So many processes are not heard any more from some time on, though their agents are.",
    "silent_node": "So many hosts are not heard any more from some time on.",
    "duplicates": "A share of the bodies is posted twice.",
    "rebatched": "A share of the bodies is posted again in other batches.",
    "reordered": "All bodies come in any order.",
    "delayed": "A share of the bodies comes up to six hours late.",
}
"""Every kind of damage: its name, and what it does in one sentence."""

_FORM = re.compile(r"(?P<name>[a-z_]+)(?::(?P<amount>[0-9.]+))?\Z")
_HOURS = 6


class UnknownDamageError(ValueError):
    """No damage has this name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage; `amount` is a share from 0 to 1, or a number of emitters or nodes."""

    kind: str
    amount: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in REGISTRY:
            known = "\n".join(f"  {name}: {sentence}" for name, sentence in REGISTRY.items())
            raise UnknownDamageError(f"there is no damage named {self.kind!r}; the known ones are:\n{known}")


def parse(text: str) -> tuple[Damage, ...]:
    """Damage from ``name[:amount],...``. Raises UnknownDamageError, or ValueError for another form."""
    found = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        match = _FORM.match(part)
        if match is None:
            raise ValueError(f"{part!r} is not name[:amount], e.g. lost:0.01")
        found.append(Damage(match["name"], float(match["amount"] or 1)))
    return tuple(found)


def damaged(bodies: Sequence[Posted], damages: Sequence[Damage], seed: int) -> list[Posted]:
    """What reaches the store, in the order in which it does. The same seed does the same damage."""
    draw = random.Random(seed)
    left = list(bodies)
    for damage in damages:
        left = _APPLY[damage.kind](left, damage.amount, draw)
    if not any(damage.kind == "reordered" for damage in damages):
        left.sort(key=lambda body: body.at)
    return left


def _lost(bodies: list[Posted], share: float, draw: random.Random) -> list[Posted]:
    return [body for body in bodies if draw.random() >= share]


def _crash_tail(bodies: list[Posted], _: float, draw: random.Random) -> list[Posted]:
    gone = {(_host(body), body.at) for body in bodies if body.tail_of_crash}
    left = []
    for body in bodies:
        halves = _halves(body.data) if body.tail_of_crash else None
        if halves is not None:
            left.append(replace(body, data=halves[0]))
        elif (_host(body), body.at) not in gone:
            left.append(body)
    return left


def _silent_emitter(bodies: list[Posted], count: float, draw: random.Random) -> list[Posted]:
    names = sorted({body.emitter for body in bodies if not body.emitter.endswith("/agent")})
    return _silenced(bodies, set(draw.sample(names, min(int(count), len(names)))), draw)


def _silent_node(bodies: list[Posted], count: float, draw: random.Random) -> list[Posted]:
    hosts = sorted({_host(body) for body in bodies})
    return _silenced(bodies, set(draw.sample(hosts, min(int(count), len(hosts)))), draw)


def _silenced(bodies: list[Posted], who: set[str], draw: random.Random) -> list[Posted]:
    since = draw.random() * max((body.at for body in bodies), default=0)
    return [body for body in bodies if body.at < since or not {body.emitter, _host(body)} & who]


def _duplicates(bodies: list[Posted], share: float, draw: random.Random) -> list[Posted]:
    again = [replace(body, at=body.at + draw.randrange(SECOND * 60)) for body in bodies if draw.random() < share]
    return bodies + again


def _halves(data: bytes) -> Sequence[bytes] | None:
    from engine_hooks.batch import split

    return split(data)


def _rebatched(bodies: list[Posted], share: float, draw: random.Random) -> list[Posted]:
    again = []
    for body in bodies:
        halves = _halves(body.data) if draw.random() < share else None
        again += [replace(body, data=half, at=body.at + draw.randrange(SECOND * 60)) for half in halves or ()]
    return bodies + again


def _reordered(bodies: list[Posted], _: float, draw: random.Random) -> list[Posted]:
    return draw.sample(bodies, len(bodies))


def _delayed(bodies: list[Posted], share: float, draw: random.Random) -> list[Posted]:
    late = _HOURS * 3600 * SECOND
    return [replace(body, at=body.at + draw.randrange(late)) if draw.random() < share else body for body in bodies]


_APPLY = {
    "lost": _lost,
    "crash_tail": _crash_tail,
    "silent_emitter": _silent_emitter,
    "silent_node": _silent_node,
    "duplicates": _duplicates,
    "rebatched": _rebatched,
    "reordered": _reordered,
    "delayed": _delayed,
}


def _host(body: Posted) -> str:
    return body.emitter.partition("/")[0]
