"""Faults of the engines, by name. Each can be on for a part of the requests and a part of the time.

A fault strikes a request or it does not: that depends on the fleet's seed, the fault's name and the request alone, so
that adding one fault does not move another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

REGISTRY: dict[str, str] = {
    "reject_placeholder": "A prompt longer than the prefill pool is answered by a one-token placeholder, which is "
    "transferred and committed; rate: of such prompts.",
    "short_transfer": "One chunk of a transfer is dropped before it is queued, and the transfer is said to be "
    "complete.",
    "commit_before_arrival": "Decode commits and reads before the last chunk has landed: it does not wait for the word "
    "of prefill.",
    "landed_said_too_soon": "Prefill says that all has landed before the last chunk has, and decode believes it.",
    "abort_continue": "Prefill aborts before its last chunk, and decode goes on as if all had come.",
}
"""Every fault: its name, and what it does in one sentence."""

NOT_SEEN = frozenset({"landed_said_too_soon"})
"""Faults that the rules in force cannot see: the engine itself says what is not so, and no fact says otherwise."""

_FORM = re.compile(r"(?P<name>[a-z_]+)(?::(?P<rate>[0-9.]+))?(?:@(?P<start>[0-9.]+)-(?P<end>[0-9.]+))?\Z")


class UnknownFaultError(ValueError):
    """No fault has this name; the message lists those that there are."""


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault that is on: for which share of the requests, and when (seconds since the fleet's start)."""

    fault: str
    rate: float = 1.0
    start: float = 0.0
    end: float = float("inf")

    def __post_init__(self) -> None:
        if self.fault not in REGISTRY:
            known = "\n".join(f"  {name}: {sentence}" for name, sentence in REGISTRY.items())
            raise UnknownFaultError(f"there is no fault named {self.fault!r}; the known ones are:\n{known}")
        if not 0 <= self.rate <= 1:
            raise ValueError(f"the rate of {self.fault} is a share from 0 to 1, not {self.rate}")
        if self.end <= self.start:
            raise ValueError(f"{self.fault} would end ({self.end} s) before it starts ({self.start} s)")


def parse(text: str) -> tuple[Injection, ...]:
    """Injections from ``name[:rate][@from-to],...``; rate is a share, from and to are seconds.

    Raises UnknownFaultError, or ValueError for a form that is not this one.
    """
    found = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        match = _FORM.match(part)
        if match is None:
            raise ValueError(f"{part!r} is not name[:rate][@from-to], e.g. short_transfer:0.01@3600-7200")
        numbers = {key: float(value) for key, value in match.groupdict().items() if value and key != "name"}
        found.append(Injection(match["name"], **numbers))
    return tuple(found)


class Faults:
    """Says whether a fault strikes a request at a time."""

    def __init__(self, seed: int, injections: Sequence[Injection]) -> None:
        self._seed = seed
        self._by_name: dict[str, list[Injection]] = {}
        for injection in injections:
            self._by_name.setdefault(injection.fault, []).append(injection)

    def strike(self, fault: str, request: int, now_seconds: float) -> bool:
        """Whether this fault strikes this request now."""
        return any(
            one.start <= now_seconds < one.end and self.draw(fault, request) < one.rate
            for one in self._by_name.get(fault, ())
        )

    def draw(self, what: str, request: int) -> float:
        """A number from [0, 1) that only the seed, the word and the request decide."""
        drawn = blake2b(f"{self._seed}|{what}|{request}".encode(), digest_size=8).digest()
        return int.from_bytes(drawn, "big") / 2**64
