"""A FastAPI gateway in front of a real pair: what a client claims to be reaches neither node.

The gateway gives each request to both legs, as a router does. All facts are read from the rings of the three processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine_hooks.facts import Fact
from engine_hooks.gateway_exchange import RESPONSE_ID_HEADER
from engine_hooks.identity import EvidenceKey, parse_keys, pseudonym
from lab.engine import keys
from lab.engine.digests import rid_digest
from lab.engine.gateway_app import INTERNAL_KEY, key_of
from lab.engine.gateway_process import GatewayProcess
from lab.engine.pair import Pair
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import Ask, prompt
from tests.engine_hooks.gateways import until
from tests.engine_hooks.sglang_plugin.on_engine import ROLES, salt_of
from tests.engine_hooks.support import facts_in

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

VERSION = "0.5.19"
HEADER = RESPONSE_ID_HEADER.decode()
MADE_UP = "1.lab-p." + "ab" * 16 + ".customer." + "cd" * 16


@dataclass
class Played:
    """What each client got, by a name for its request, and what was recorded."""

    answers: dict[str, httpx.Response] = field(default_factory=dict)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    legs: dict[str, list[list[Fact]]] = field(default_factory=dict)

    def delivery(self, name: str) -> dict[str, Any]:
        (found,) = self.deliveries_of(name)
        return found

    def deliveries_of(self, name: str) -> list[dict[str, Any]]:
        response = self.answers[name].headers[HEADER]
        return [fact for fact in self.deliveries if fact["gen_ai.response.id"] == response]

    def leg(self, role: str, rid: bytes) -> list[Fact]:
        (found,) = [leg for leg in self.legs[role] if rid_in(leg) == rid]
        return found


def rid_in(leg: list[Fact]) -> bytes:
    rid = leg[0].values["pagewitness.rid"]
    assert isinstance(rid, bytes)
    return rid


def text(number: int) -> str:
    return prompt(Ask("acme", 60, oversized=True), number)


def play(gateway: GatewayProcess, played: Played) -> None:
    acme, zenith, orion, provider = map(
        gateway.client, (key_of("acme"), key_of("zenith"), key_of("orion"), INTERNAL_KEY)
    )
    few = {"temperature": 0, "ignore_eos": True, "max_new_tokens": 4}
    answers = played.answers
    with acme, zenith, orion, provider, gateway.client("of nobody") as stranger:
        answers["victim"] = acme.post("/generate", json={"text": text(0), "sampling_params": few})
        victims_id = answers["victim"].json()["meta_info"]["id"]
        # All of it is true of the victim's request; zenith may have seen it in a log.
        stolen = {"cache_salt": salt_of("acme"), "rid": victims_id}
        answers["thief"] = zenith.post(
            "/generate",
            json={"text": text(1), "sampling_params": few, **stolen, "extra_key": salt_of("acme"), "bootstrap_room": 1},
            headers={"x-override-rid": victims_id},
        )
        answers["forger"] = zenith.post("/v1/completions", json=completion(2) | {"cache_salt": MADE_UP})
        doubled = b'{"model":"lab-echo","prompt":"%s","max_tokens":4,"cache_salt":"%s","\\u0063ache_salt":"%s"}'
        salt = salt_of("acme").encode()
        answers["doubler"] = zenith.post(
            "/v1/completions", content=doubled % (text(3).encode(), salt, salt), headers=JSON
        )
        answers["batch"] = orion.post("/v1/completions", json=completion(4) | {"prompt": [text(4), text(5)]})
        answers["provider"] = provider.post("/v1/completions", json=completion(6))
        chat = {"model": "lab-echo", "messages": [{"role": "user", "content": text(9)}], "max_tokens": 4}
        answers["chat"] = acme.post("/v1/chat/completions", json=chat)
        responses = {"model": "lab-echo", "input": text(10), "max_output_tokens": 4, "request_id": "resp_"}
        answers["responses"] = acme.post("/v1/responses", json=responses)
        answers["stranger"] = stranger.post("/v1/completions", json=completion(7))
        answers["broken"] = acme.post("/v1/completions", content=b'{"prompt":', headers=JSON)
        answers["turned away"] = acme.post("/generate", json={"text": 7, "sampling_params": few})
        many = few | {"max_new_tokens": 1500}
        with orion.stream(
            "POST", "/generate", json={"text": text(8), "sampling_params": many, "stream": True}
        ) as answer:
            answers["hung up"] = answer
            next(answer.iter_raw())


JSON = {"content-type": "application/json"}


def completion(number: int) -> dict[str, Any]:
    return {"model": "lab-echo", "prompt": text(number), "max_tokens": 4, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    run = RunFolder(tmp_path_factory.mktemp("gateway"))
    found = Played()
    with Pair(PairSettings(VERSION), run) as pair:
        with GatewayProcess(pair, run) as gateway:
            play(gateway, found)
            until(lambda: all(legs_end(run.rings, role) for role in ROLES), seconds=60)
        for role in ROLES:
            found.legs[role] = list(legs(run.rings, role).values())
        found.deliveries = [
            {name.removeprefix("pagewitness."): value for name, value in fact.values.items()}
            for fact in facts_of(run.rings, "gateway")
        ]
    return found


def facts_of(rings: Path, name: str) -> list[Fact]:
    (ring,) = rings.glob(f"*+{name}*.ring")
    return facts_in(ring)


def legs(rings: Path, role: str) -> dict[bytes, list[Fact]]:
    found: dict[bytes, list[Fact]] = {}
    for fact in facts_of(rings, role):
        if fact.leg is not None:
            found.setdefault(fact.leg.uid, []).append(fact)
    return found


def legs_end(rings: Path, role: str) -> bool:
    found = legs(rings, role)
    return bool(found) and all(leg[-1].span.name == "pagewitness.request.end" for leg in found.values())


TENANTS = {
    "victim": ("acme", "customer"), "thief": ("zenith", "customer"), "forger": ("zenith", "customer"),
    "doubler": ("zenith", "customer"), "batch": ("orion", "customer"), "provider": ("provider", "internal"),
    "hung up": ("orion", "customer"), "chat": ("acme", "customer"), "responses": ("acme", "customer"),
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", TENANTS)
def test_both_legs_are_the_tenants_whose_key_it_was(played: Played, name: str, role: str) -> None:
    (key,) = parse_keys(keys.PSEUDONYM_KEY)
    tenant, traffic = TENANTS[name]
    facts = played.deliveries_of(name)
    assert len(facts) == (2 if name == "batch" else 1)
    for delivery in facts:
        leg = played.leg(role, delivery["rid"])[0].leg
        assert leg is not None
        assert (leg.tenant, leg.tenant_key, leg.traffic) == (pseudonym(key, tenant), "lab-p", traffic)
        assert (delivery["tenant.id"], delivery["tenant.key"], delivery["traffic"]) == (leg.tenant, "lab-p", traffic)


@pytest.mark.parametrize("role", ROLES)
def test_every_leg_is_one_that_the_gateway_answers_for(played: Played, role: str) -> None:
    rids = [rid_in(leg) for leg in played.legs[role]]
    assert len(set(rids)) == len(rids)
    answered = {fact["rid"] for fact in played.deliveries if fact["http.response.status_code"] == 200}
    assert answered <= set(rids) <= {fact["rid"] for fact in played.deliveries}


def test_the_id_in_the_engines_answer_is_the_one_that_was_digested(played: Played) -> None:
    for name in ("victim", "thief"):
        body = played.answers[name].json()
        assert rid_digest(body["meta_info"]["id"]) == played.delivery(name)["rid"].hex()
    assert played.answers["thief"].json()["meta_info"]["id"] != played.answers["victim"].json()["meta_info"]["id"]


def test_a_room_of_a_client_reaches_no_node(played: Played) -> None:
    rooms = {played.leg(role, played.delivery("thief")["rid"])[0].values["pagewitness.room"] for role in ROLES}
    (key,) = parse_keys(keys.EVIDENCE_KEY)
    assert len(rooms) == 1
    assert EvidenceKey(key).room(1) not in rooms


@pytest.mark.parametrize(
    ("name", "state", "status"),
    [
        ("victim", "complete", 200), ("thief", "complete", 200), ("forger", "complete", 200),
        ("doubler", "complete", 200), ("turned away", "complete", None), ("hung up", "cut", 200),
    ],
)  # fmt: skip
def test_the_state_and_the_status_are_what_the_client_got(
    played: Played, name: str, state: str, status: int | None
) -> None:
    got = played.answers[name].status_code
    assert got == (status or got)
    fact = played.delivery(name)
    assert (fact["delivery.state"], fact["http.response.status_code"]) == (state, got)


def test_only_those_that_sent_a_salt_are_said_to_have(played: Played) -> None:
    said = {name for name in TENANTS for fact in played.deliveries_of(name) if fact["gateway.client_salt"]}
    assert said == {"thief", "forger", "doubler"}


@pytest.mark.parametrize(("name", "status"), [("stranger", 401), ("broken", 400)])
def test_what_the_gateway_turns_away_leaves_nothing(played: Played, name: str, status: int) -> None:
    answer = played.answers[name]
    assert answer.status_code == status
    assert HEADER not in answer.headers
