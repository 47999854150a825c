"""The middleware in a FastAPI gateway: whose a request is, what goes on, what comes back, and the fact about it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from engine_hooks.conventions import TRAFFIC
from engine_hooks.gateway import Tenant, TenantGateway
from engine_hooks.gateway_request import InferencePath
from engine_hooks.identity import verify_salt
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.gateways import (
    ACME,
    EVIDENCE,
    HEADER,
    MAC,
    Engine,
    Gateway,
    acme,
    application,
    deliveries,
    settings,
    values,
)

PATHS = ["/generate", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"]


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


# ------------------------------------------------------------------ who it is


@pytest.mark.parametrize("path", PATHS)
def test_the_engine_gets_a_salt_that_its_hooks_believe(gateway: Gateway, path: str) -> None:
    gateway.post(path, json={"text": "hello", "cache_salt": "mine"})
    found = verify_salt(gateway.engine.fields["cache_salt"], [MAC])
    assert found is not None
    assert (found.tenant.hex(), found.key_id, found.traffic) == (ACME, "p1", "customer")


def test_each_request_has_an_id_of_its_own_and_none_is_the_beginning_of_another(gateway: Gateway) -> None:
    for _ in range(50):
        gateway.post(json={"text": "x", "rid": "HEALTH_CHECK"})
    assert len({value["rid"] for value in map(values, gateway.facts)}) == 50
    rids = [run_id(body) for body in gateway.engine.bodies]
    assert not [(a, b) for a in rids for b in rids if a is not b and a.startswith(b)]


def run_id(body: bytes) -> str:
    engine = Engine()
    engine.bodies.append(body)
    return str(engine.fields["rid"])


@pytest.mark.parametrize("traffic", TRAFFIC.choices)
def test_a_traffic_label_is_vouched_for_and_recorded(tmp_path: Path, traffic: str) -> None:
    gateway = Gateway(tmp_path, lambda scope: Tenant("acme", traffic))
    gateway.post(json={"text": "x"})
    found = verify_salt(gateway.engine.fields["cache_salt"], [MAC])
    assert found is not None
    assert found.traffic == gateway.fact["traffic"] == traffic


def test_who_it_is_may_be_looked_up_asynchronously_after_the_gateways_own_authentication(tmp_path: Path) -> None:
    async def identify(scope: Any) -> Tenant:
        return Tenant(scope["state"]["customer"])

    class Authentication:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope["state"] = {"customer": "acme"}
            await self.app(scope, receive, send)

    gateway = Gateway(tmp_path)
    app = application(gateway.engine)
    app.add_middleware(TenantGateway, identify=identify, settings=settings(tmp_path))
    app.add_middleware(Authentication)
    gateway.app = app  # type: ignore[assignment]
    gateway.post(json={"text": "x"})
    assert gateway.fact["tenant.id"] == ACME


def nobody(scope: Any) -> None:
    return None


def broken(scope: Any) -> Tenant:
    raise LookupError("acme's secret is in this message")


async def broken_later(scope: Any) -> Tenant:
    raise LookupError


@pytest.mark.parametrize(
    ("identify", "errors"),
    [
        (nobody, 0), (broken, 1), (broken_later, 1), (lambda scope: Tenant(""), 1),
        (lambda scope: Tenant("acme", "visitor"), 1), (lambda scope: "acme", 1),
        (lambda scope: Tenant(cast(Any, 7)), 1),
    ],
    ids=["nobody", "raises", "raises later", "empty name", "unknown label", "no Tenant", "no name"],
)  # fmt: skip
def test_what_cannot_be_vouched_for_goes_on_as_nobodys(
    tmp_path: Path, identify: Any, errors: int, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway(tmp_path, identify)
    answer = gateway.post(json={"text": "x", "cache_salt": "stolen"})

    assert answer.status_code == 200
    assert "cache_salt" not in gateway.engine.fields
    assert (gateway.fact["tenant.id"], gateway.fact.get("tenant.key")) == ("unattributed", None)
    assert gateway.fact["gateway.client_salt"] is True
    assert (gateway.app.counts["unattributed"], gateway.app.counts["identify_errors"]) == (1, errors)
    assert hook_errors(tmp_path) == errors
    assert "secret" not in caplog.text


def hook_errors(rings: Path) -> int:
    (ring,) = rings.glob("*.ring")
    reader = RingReader.open(ring)
    errors = reader.hook_errors
    reader.close()
    return errors


def test_an_identify_that_always_fails_does_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway(tmp_path, broken)
    for _ in range(25):
        gateway.post(json={"text": "x"})
    assert [record.args[0] for record in caplog.records if record.args] == [1, 10]  # type: ignore[index]


# ------------------------------------------------------------------ what goes on, what comes back


def test_the_body_that_goes_on_is_whole_and_has_the_length_that_its_header_says(gateway: Gateway) -> None:
    gateway.post(json={"text": "ünïcode " * 1000})
    assert gateway.engine.fields["text"] == "ünïcode " * 1000
    assert int(gateway.engine.headers[-1]["content-length"]) == len(gateway.engine.bodies[-1])


def test_headers_that_speak_for_the_client_do_not_go_on(gateway: Gateway) -> None:
    sent = {"x-override-rid": "HEALTH_CHECK", "x-smg-routing-key": "k", "authorization": "Bearer t"}
    gateway.post(json={"text": "x"}, headers=sent)
    assert sent.keys() & gateway.engine.headers[-1].keys() == {"authorization"}


def test_an_application_that_writes_the_engines_request_anew_finds_salt_and_id(gateway: Gateway) -> None:
    answer = gateway.post(json={"text": "x"})
    assert answer.json()["scope"] == {name: gateway.engine.fields[name] for name in ("cache_salt", "rid")}


def test_the_client_gets_a_response_id_that_opens_nothing_in_the_engine(gateway: Gateway) -> None:
    answer = gateway.post(json={"text": "x"})
    assert answer.headers[HEADER] == gateway.fact["gen_ai.response.id"]
    assert answer.headers[HEADER] not in gateway.engine.bodies[-1].decode()


def test_a_response_id_that_somebody_else_set_is_replaced(gateway: Gateway) -> None:
    answer = gateway.post(json={"text": "x", "do": "stream"})
    assert answer.headers.get_list(HEADER) == [gateway.fact["gen_ai.response.id"]]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/generate"), ("POST", "/other"), ("POST", "/v1/models"), ("DELETE", "/v1/responses"),
        ("POST", "/generate/more"),
    ],
)  # fmt: skip
def test_other_requests_pass_untouched(gateway: Gateway, method: str, path: str) -> None:
    body = b'{"cache_salt":"mine", "text":"x"}'
    answer = gateway.ask(method, path, content=body)
    assert HEADER not in answer.headers
    assert gateway.engine.bodies == ([body] if path == "/other" else [])
    assert gateway.facts == []


def test_a_gateway_below_a_root_path_is_one(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    outer = FastAPI()
    outer.mount("/llm", gateway.app)
    gateway.app = outer  # type: ignore[assignment]
    gateway.post("/llm/generate", json={"text": "x", "cache_salt": "stolen"})
    assert verify_salt(gateway.engine.fields["cache_salt"], [MAC])


def test_a_gateway_names_paths_of_its_own(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, paths={"/other": InferencePath(id_field="request_id", prefix="mine-")})
    gateway.post("/other", json={"text": "x"})
    gateway.post("/generate", json={"text": "x", "cache_salt": "client"})
    first, second = gateway.engine.bodies
    assert b'"request_id":"mine-' in first
    assert b'"client"' in second
    assert len(gateway.facts) == 1


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": b"{"}, 400), ({"content": b""}, 400), ({"files": {"f": b"x"}, "data": {"cache_salt": "a"}}, 400),
        ({"content": b"{}", "headers": {"content-encoding": "gzip"}}, 415), ({"json": {"text": "x" * 2000}}, 413),
    ],
    ids=["no json", "nothing", "multipart", "compressed", "too long"],
)  # fmt: skip
def test_a_body_that_cannot_be_read_safely_never_reaches_the_engine(
    tmp_path: Path, request_: dict[str, Any], status: int
) -> None:
    gateway = Gateway(tmp_path, body_bytes=1000)
    answer = gateway.post(**request_)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")
    assert gateway.engine.bodies == []
    assert gateway.facts == []
    assert gateway.app.counts["refused"] == 1


# ------------------------------------------------------------------ the fact


def test_an_answer_leaves_one_fact_that_joins_it_to_the_engines_legs(gateway: Gateway) -> None:
    answer = gateway.post("/v1/completions", json={"prompt": "x", "cache_salt": "client"})
    assert gateway.fact == {
        "delivery.state": "complete",
        "gen_ai.response.id": answer.headers[HEADER],
        "rid": EVIDENCE.rid(gateway.engine.fields["rid"]),
        "tenant.id": ACME,
        "tenant.key": "p1",
        "traffic": "customer",
        "http.response.status_code": 200,
        "gateway.client_salt": True,
    }


@pytest.mark.parametrize(
    ("do", "state", "status"),
    [("stream", "complete", 200), ("turn away", "complete", 503), ("break off", "cut", 200), ("raise", "failed", 500)],
)
def test_the_state_and_the_status_are_what_the_client_got(gateway: Gateway, do: str, state: str, status: int) -> None:
    answer = gateway.post(json={"text": "x", "do": do})
    assert answer.status_code == status
    assert (gateway.fact["delivery.state"], gateway.fact["http.response.status_code"]) == (state, status)


def test_it_needs_no_event_loop_of_one_kind(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert b"stolen" not in message["body"]
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    words: list[dict[str, Any]] = [
        {"type": "http.request", "body": b'{"cache_salt": "stolen"}'},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return words.pop(0)

    async def send(message: Any) -> None:
        pass

    gateway = TenantGateway(app, identify=acme, settings=settings(tmp_path))
    scope = {"type": "http", "method": "POST", "path": "/generate", "headers": []}
    with pytest.raises(StopIteration):  # it ran to its end without ever waiting
        gateway(scope, receive, send).send(None)
    (fact,) = map(values, deliveries(tmp_path))
    assert (fact["delivery.state"], fact.get("http.response.status_code")) == ("cut", None)


def test_a_batch_is_one_response_with_a_fact_for_each_of_the_engines_requests(gateway: Gateway) -> None:
    answer = gateway.post("/v1/completions", json={"prompt": ["x", "y"]})
    rid = gateway.engine.fields["rid"]
    facts = [values(fact) for fact in gateway.facts]
    assert [fact["rid"] for fact in facts] == [EVIDENCE.rid(f"{rid}_0"), EVIDENCE.rid(f"{rid}_1")]
    assert {fact["gen_ai.response.id"] for fact in facts} == {answer.headers[HEADER]}


def test_several_choices_leave_a_fact_without_an_id_that_no_leg_has(gateway: Gateway) -> None:
    gateway.post("/v1/completions", json={"prompt": "x", "n": 2})
    assert "rid" not in gateway.fact
    assert gateway.fact["delivery.state"] == "complete"


def test_the_emitter_is_the_gateways(tmp_path: Path) -> None:
    Gateway(tmp_path, name="paris").post(json={"text": "x"})
    (ring,) = tmp_path.glob("*.ring")
    assert ring.name.startswith("edge1+gateway-paris-")


@pytest.mark.parametrize("missing", ["PSEUDONYM_KEYS", "MAC_KEYS"])
def test_without_a_key_to_vouch_with_it_still_removes_what_clients_claim(
    tmp_path: Path, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Gateway(tmp_path, known=settings(tmp_path, **{missing: ""}))
    for _ in range(3):
        gateway.post(json={"text": "x", "cache_salt": "stolen"})
    assert "cache_salt" not in gateway.engine.fields
    assert [values(fact)["tenant.id"] for fact in gateway.facts] == ["unattributed"] * 3
    assert [record.message for record in caplog.records] == [
        f"PAGEWITNESS_{missing} is not set: every request is unattributed"
    ]


@pytest.mark.parametrize("fault", ["no evidence key", "no ring"])
def test_without_a_ring_it_still_vouches_and_says_so_once(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    known = settings(tmp_path, EVIDENCE_KEY="") if fault == "no evidence key" else settings(blocked)
    gateway = Gateway(tmp_path, known=known)
    for _ in range(3):
        assert gateway.post(json={"text": "x"}).headers[HEADER]
    assert verify_salt(gateway.engine.fields["cache_salt"], [MAC])
    assert deliveries(tmp_path) == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "no delivery is recorded" in caplog.text


def test_a_full_ring_loses_facts_and_no_answer(gateway: Gateway) -> None:
    statuses = {gateway.post(json={"text": "x"}).status_code for _ in range(300)}
    (ring,) = gateway.rings.glob("*.ring")
    reader = RingReader.open(ring)
    drops = reader.drops
    reader.close()
    assert statuses == {200}
    assert drops > 0
    assert len(gateway.facts) + drops == 300
