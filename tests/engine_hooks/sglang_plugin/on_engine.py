"""One run of the real engine with the hooks on: what was asked, what came back, and every fact that was recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine_hooks.facts import Fact
from engine_hooks.identity import mint_salt, parse_keys
from engine_hooks.ring_reader import RingReader
from engine_hooks.sglang_plugin.table import parse_version
from lab.engine import keys
from lab.engine.client import Client, PairAnswer
from lab.engine.digests import rid_digest
from lab.engine.pair import Pair
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import Ask, prompt, room_of
from tests.engine_hooks.sglang_plugin.support import word_of
from tests.engine_hooks.support import facts_in

MARKER = "marker-of-a-client"
ROLES = ("prefill", "decode")
EXACT = ("acquire", "write:prefill", "step", "free", "slot.use", "share:publish")
TIERS = {"0.5.11": "exact", "0.5.19": "exact", "0.5.22": "exact"}
"""The tier in which a version runs here; the others run in the control tier."""
BLIND = {
    "0.5.11": ["alarm", "transfer.landed"],
    "0.5.15": ["transfer.landed"],
    "0.5.19": ["transfer.landed"],
    "0.5.20": [],
    "0.5.22": [],
    "0.5.23": [],
}
"""Facts that no hook point of a version supplies. The engine has no alarms of its own before 0.5.15, and says of no
transfer that it has landed before 0.5.20."""


@dataclass
class Run:
    """What is left when the pair is down. `legs` are the facts by role and request name, in the order of recording."""

    version: str
    answers: dict[str, PairAnswer] = field(default_factory=dict)
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    drops: dict[str, int] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)

    def leg(self, role: str, name: str) -> list[Fact]:
        """The facts of the one leg of this request on this node."""
        legs = self.legs(role)
        digest = bytes.fromhex(rid_digest(rid_of(name)))
        (found,) = [facts for facts in legs.values() if facts[0].values.get("pagewitness.rid") == digest]
        return found

    def legs(self, role: str) -> dict[bytes, list[Fact]]:
        legs: dict[bytes, list[Fact]] = {}
        for fact in self.facts[role]:
            if fact.leg is not None:
                legs.setdefault(fact.leg.uid, []).append(fact)
        return legs

    def story(self, role: str, name: str) -> list[str]:
        """The leg's facts as words, without those that only the exact tier has."""
        words = [word_of(fact) for fact in self.leg(role, name)]
        return [word for word in words if not word.startswith(EXACT)]

    def only(self, role: str, name: str, word: str) -> dict[str, Any]:
        (fact,) = [fact for fact in self.leg(role, name) if word_of(fact) == word]
        return {key.removeprefix("pagewitness."): value for key, value in fact.values.items()}

    def config(self, role: str) -> dict[str, Any]:
        (fact,) = [fact for fact in self.facts[role] if fact.span.name == "pagewitness.node.config"]
        return {key.removeprefix("pagewitness."): value for key, value in fact.values.items()}


def tier_of(version: str) -> str:
    return TIERS.get(version, "control")


def rid_of(name: str) -> str:
    """The id under which a request is sent; none is the beginning of another."""
    return f"{name}-{MARKER}."


def play(version: str, folder: Path) -> Run:
    """Start a pair, ask everything once, wait until every leg has ended, take the pair down."""
    run = Run(version)
    files = RunFolder(folder)
    with Pair(PairSettings(version, environment={"PAGEWITNESS_TIER": tier_of(version)}), files) as pair:
        client = pair.client()
        try:
            for number, (name, body) in enumerate(requests().items()):
                if parse_version(version) < (0, 5, 18):  # there is no other field for the salt
                    body["extra_key"] = body.pop("cache_salt")
                timeout = body.pop("timeout", 60.0)
                body |= {"rid": rid_of(name)} | body
                body.setdefault("text", f"{MARKER} {prompt(Ask('acme', 60), number)}")
                run.answers[name] = ask(client, body, timeout=timeout)
            wait(lambda: all_ended(files.rings))
        finally:
            client.close()
        read(run, files)
    return run


def requests() -> dict[str, dict[str, Any]]:
    """What is asked, by name: one of each kind that ends in its own way."""
    answer = {"temperature": 0, "ignore_eos": True}
    salt = salt_of("acme")
    same = prompt(Ask("acme", 100), 100)
    return {
        "ordinary": {"sampling_params": answer | {"max_new_tokens": 20}, "cache_salt": salt},
        "one-token": {"sampling_params": answer | {"max_new_tokens": 1}, "cache_salt": salt},
        "first": {"text": same, "sampling_params": answer | {"max_new_tokens": 4}, "cache_salt": salt},
        "again": {"text": same, "sampling_params": answer | {"max_new_tokens": 4}, "cache_salt": salt},
        "oversized": {
            "text": prompt(Ask("zenith", 1500, oversized=True), 101),
            "sampling_params": answer | {"max_new_tokens": 8},
            "cache_salt": salt_of("zenith"),
        },
        "grammar": {"sampling_params": answer | {"max_new_tokens": 8, "regex": f"({MARKER}["}, "cache_salt": salt},
        "unvouched": {"sampling_params": answer | {"max_new_tokens": 4}, "cache_salt": salt[:-1] + "x"},
        "hung-up": {"sampling_params": answer | {"max_new_tokens": 1900}, "timeout": 0.5, "cache_salt": salt},
    }


def salt_of(tenant: str) -> str:
    (pseudonym_key,), (mac_key,) = parse_keys(keys.PSEUDONYM_KEY), parse_keys(keys.MAC_KEY)
    return mint_salt(tenant, pseudonym_key=pseudonym_key, mac_key=mac_key)


def ask(client: Client, body: dict[str, Any], *, timeout: float) -> PairAnswer:
    return client.ask(body, room=room_of(body["rid"]), timeout=timeout)


def all_ended(rings: Path) -> bool:
    """Whether each leg in the rings has its end, and there are legs."""
    for ring in rings.glob("*.ring"):
        facts = [fact for fact in facts_in(ring) if fact.leg is not None]
        ended = {fact.leg.uid for fact in facts if fact.leg and fact.span.name == "pagewitness.request.end"}
        if not facts or {fact.leg.uid for fact in facts if fact.leg} != ended:
            return False
    return True


def wait(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "some legs never ended"
        time.sleep(0.2)


def read(run: Run, files: RunFolder) -> None:
    for role in ROLES:
        (ring,) = files.rings.glob(f"*+{role}-*.ring")
        run.facts[role] = facts_in(ring)
        run.raw[role] = ring.read_bytes()
        run.logs[role] = files.log(role).read_text(errors="replace")
        reader = RingReader.open(ring)
        run.errors[role], run.drops[role] = reader.hook_errors, reader.drops
        reader.close()
