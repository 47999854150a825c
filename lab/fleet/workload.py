"""The traffic of a fleet: who asks when, how long, and which earlier tokens a prompt begins with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine_hooks.identity import NO_TENANT, parse_keys, pseudonym
from lab.engine import keys
from lab.fleet.clock import SECOND
from lab.fleet.prefix_cache import Run
from lab.fleet.spec import FleetSpec

Ints = NDArray[np.int64]

PSEUDONYM_KEY = parse_keys(keys.PSEUDONYM_KEY)[0]
"""Makes the pseudonyms of a fleet's tenants: no secret, they are called tenant-0, tenant-1, ..."""

TRAFFIC = ("customer", "internal", "researcher")
_WHOLE = 1 << 40


@dataclass(frozen=True, slots=True)
class Workload:
    """One entry a request. Nodes of the token trees are requests, and from `len(arrival)` on the tenants' preambles."""

    arrival: Ints  # ns since the start
    tenant: Ints
    prompt: Ints  # tokens
    output: Ints  # tokens
    traffic: Ints  # index into TRAFFIC
    parent: Ints  # node whose first tokens the prompt begins with
    shared: Ints  # how many of them
    patience: Ints  # ns after which the client goes away; -1: it does not
    pseudonyms: tuple[bytes, ...]  # by tenant

    def chain(self, request: int) -> list[tuple[int, int]]:
        """(node, tokens): the request and its ancestors, with how many leading tokens of each are its own too."""
        found = [(request, _WHOLE)]
        node, tokens = request, _WHOLE
        while node < len(self.arrival):
            tokens = min(tokens, int(self.shared[node]))
            node = int(self.parent[node])
            found.append((node, tokens))
        return found

    def runs(self, request: int, page_size: int) -> list[Run]:
        """Which node brought in the tokens of each whole page of the request, first page first."""
        found: list[Run] = []
        end = _WHOLE
        chain = self.chain(request)
        for place, (node, tokens) in enumerate(chain):
            end = min(end, tokens // page_size)
            first = chain[place + 1][1] // page_size if place + 1 < len(chain) else 0
            if first < end:
                found.append((node, first, end))
        return found[::-1]

    def common(self, one: int, other: int) -> int:
        """How many leading tokens two requests have in common: what one computed of them is right for the other."""
        mine = dict(self.chain(one))
        return max((min(tokens, mine[node]) for node, tokens in self.chain(other) if node in mine), default=0)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn of each request before prompts that go on with others are put together."""

    arrival: Ints
    tenant: Ints
    fresh: Ints  # tokens of the prompt that are its own
    output: Ints
    label: NDArray[np.int64]
    goes_on: NDArray[np.bool_]
    patience: NDArray[np.float64]


def make(spec: FleetSpec) -> Workload:
    """Draw the traffic. Everything comes from the spec's seed."""
    traffic, count = spec.traffic, spec.requests
    random = np.random.Generator(np.random.PCG64(spec.seed))
    arrival = np.cumsum(random.exponential(SECOND / traffic.per_second, count)).astype(np.int64)
    weights = 1 / np.arange(1, traffic.tenants + 1) ** 1.1
    tenant = random.choice(traffic.tenants, count, p=weights / weights.sum()).astype(np.int64)
    fresh = np.exp(random.normal(np.log(traffic.typical_prompt), traffic.prompt_spread, count))
    fresh = np.clip(fresh, 1, traffic.longest_prompt).astype(np.int64)
    output = np.clip(random.exponential(traffic.typical_output, count), 1, traffic.longest_output).astype(np.int64)
    kind = random.random(count)
    label = np.where(kind < traffic.internal, 1, np.where(kind < traffic.internal + traffic.researcher, 2, 0))
    preamble = random.integers(0, traffic.preamble + 1, traffic.tenants)
    goes_on = random.random(count) < traffic.goes_on
    patience = np.where(random.random(count) < traffic.aborts, random.exponential(3 * SECOND, count), -1)
    _plant(spec, random, Drawn(arrival, tenant, fresh, output, label, goes_on, patience))
    prompt, parent, shared = _trees(spec, tenant, fresh, output, preamble, goes_on)
    names = tuple(bytes.fromhex(pseudonym(PSEUDONYM_KEY, tenant_name(number))) for number in range(traffic.tenants))
    assert NO_TENANT not in names
    return Workload(
        arrival, tenant, prompt, output, label.astype(np.int64), parent, shared, patience.astype(np.int64), names
    )


def _plant(spec: FleetSpec, random: np.random.Generator, drawn: Drawn) -> None:
    """Make some of the requests those that the spec plants; each is one of them at most."""
    taken = np.zeros(len(drawn.arrival), np.bool_)
    for one in spec.planted:
        inside = (drawn.arrival >= one.start * SECOND) & (drawn.arrival < one.end * SECOND) & ~taken
        places = np.nonzero(inside)[0]
        if len(places) < one.count:
            raise ValueError(f"{one.count} planted requests do not fit: {len(places)} arrive in their time")
        chosen = random.choice(places, one.count, replace=False)
        taken[chosen] = True
        drawn.fresh[chosen] = random.integers(one.shortest, one.longest + 1, one.count)
        drawn.output[chosen] = np.maximum(drawn.output[chosen], 2)  # an answer of one token reads nothing on decode
        drawn.label[chosen] = TRAFFIC.index(one.traffic)
        drawn.goes_on[chosen] = False
        drawn.patience[chosen] = -1
        if one.tenant is not None:
            drawn.tenant[chosen] = one.tenant


def tenant_name(number: int) -> str:
    """What a tenant is called."""
    return f"tenant-{number}"


def _trees(
    spec: FleetSpec, tenant: Ints, fresh: Ints, output: Ints, preamble: Ints, goes_on: NDArray[np.bool_]
) -> tuple[Ints, Ints, Ints]:
    """(prompt, parent, shared): a request goes on with the tenant's latest one, or begins with its preamble."""
    count, longest = spec.requests, spec.traffic.longest_prompt
    prompt, parent, shared = fresh.copy(), np.zeros(count, np.int64), np.zeros(count, np.int64)
    latest: dict[int, int] = {}
    for request in range(count):
        who = int(tenant[request])
        before = latest.get(who)
        known = int(prompt[before] + output[before]) - 1 if before is not None else 0
        if before is not None and goes_on[request] and known + fresh[request] <= longest:
            parent[request], shared[request] = before, known
            prompt[request] += known
        else:
            parent[request] = count + who
            shared[request] = min(preamble[who], prompt[request])
        latest[who] = request
    return prompt, parent, shared
