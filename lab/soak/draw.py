"""What a fleet of the soak is like: drawn from the soak's seed and the fleet's number, and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from lab.fleet import damage, faults
from lab.fleet.damage import Damage
from lab.fleet.faults import Injection
from lab.fleet.spec import START, FleetSpec, TrafficSpec

SEEN = tuple(sorted(faults.REGISTRY.keys() - faults.NOT_SEEN))
REQUESTS = 40
_LOSSLESS = ("duplicates", "rebatched", "reordered", "delayed")
_LOSSY = tuple(sorted(damage.REGISTRY.keys() - set(_LOSSLESS)))
_APART = timedelta(hours=12)
"""Between the starts of two fleets: no two that share a store run, or are posted, at one time."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One fleet of the soak, and what happens to its telemetry."""

    number: int
    spec: FleetSpec
    damages: tuple[Damage, ...]
    damage_seed: int
    passes: int = 1  # of detection: the last one has everything that arrives, the others come before

    @property
    def full_evidence(self) -> bool:
        """Whether every fact reaches the store in the end. A crash is damage: what a node had not posted is gone."""
        return not self.spec.crashes and all(one.kind in _LOSSLESS for one in self.damages)


def draw(seed: int, number: int) -> Drawn:
    """The fleet with this number."""
    rng = random.Random(f"{seed}|{number}")
    page = rng.choice((1, 4, 4, 8, 16))
    longest = rng.randrange(120, 260)
    prefill = -(-rng.randrange(longest // 2, longest * 2) // page) + 2
    spec = FleetSpec(
        seed=rng.randrange(1 << 30),
        requests=REQUESTS,
        prefill_nodes=rng.randint(1, 2),
        decode_nodes=rng.randint(1, 2),
        prefill_pages=prefill,
        decode_pages=-(-(longest + 40) * rng.choice((1, 1, 2, 4)) // page) + 2,
        page_size=page,
        chunk_tokens=page * rng.randint(1, max(1, 64 // page)),
        lifo=rng.random() < 0.5,
        prefix_cache=rng.random() < 0.7,
        traffic=TrafficSpec(
            tenants=rng.randint(2, 6),
            per_second=rng.choice((4.0, 12.0, 40.0)),
            typical_prompt=rng.choice((15, 30, 60)),
            longest_prompt=longest,
            typical_output=rng.choice((4, 12)),
            longest_output=40,
            preamble=rng.choice((0, 24)),
            goes_on=rng.choice((0.0, 0.3, 0.6)),
            aborts=rng.choice((0.0, 0.1)),
        ),
        injections=_injections(rng),
        retracts=rng.choice((0.0, 0.0, 0.2)),
        restarts=rng.choice((0, 0, 1, 2)),
        crashes=rng.choice((0, 0, 0, 1)),
        clock_offset_seconds=rng.choice((0.0, 0.5, 2.0)),
        flush_seconds=rng.choice((2.0, 20.0)),
        heartbeat_seconds=20.0,
        start=START + number * _APART,
        name=f"soak-{seed}-{number}",
    )
    return Drawn(number, spec, _damages(rng), rng.randrange(1 << 30), rng.choice((1, 1, 2, 3)))


def _injections(rng: random.Random) -> tuple[Injection, ...]:
    chosen = rng.sample(SEEN, rng.choice((0, 1, 1, 2, len(SEEN))))
    found = []
    for fault in chosen:
        start = rng.choice((0.0, 0.0, 2.0))
        rate = 1.0 if fault == "reject_placeholder" else rng.choice((0.05, 0.2, 0.5))
        found.append(Injection(fault, rate, start, start + rng.choice((5.0, float("inf")))))
    return tuple(found)


def _damages(rng: random.Random) -> tuple[Damage, ...]:
    kind = rng.random()
    if kind < 0.4:
        return ()
    names = rng.sample(_LOSSLESS, rng.randint(1, 2)) if kind < 0.65 else rng.sample(_LOSSY, rng.randint(1, 2))
    shares = {"lost": (0.01, 0.1, 0.4), "duplicates": (0.3,), "rebatched": (0.5,), "delayed": (0.3,)}
    return tuple(Damage(name, rng.choice(shares.get(name, (1.0,)))) for name in names)
