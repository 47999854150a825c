"""What the receiver takes, and what it answers when it does not: OTLP/HTTP's statuses, saying what and where."""

from __future__ import annotations

import gzip
import random
import secrets
from collections import Counter
from collections.abc import Callable, Mapping

import httpx
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.store import Store
from collector.store.claims import Claims
from collector.tokens import revoke_token
from engine_hooks.conventions import CONTRACT_VERSION
from tests.collector.conftest import Rows
from tests.support.otlp import Fact, attribute, export, message
from tests.support.receivers import PROTOBUF, Sender, sender

Made = Callable[..., Fact]
READ = "pagewitness.page.read"


def said(response: httpx.Response) -> str:
    """The message of a refusal, which is a google.rpc.Status in protobuf."""
    assert response.headers["Content-Type"] == PROTOBUF
    status = Status.FromString(response.content)
    assert status.code != 0
    text: str = status.message
    return text


def accepted(response: httpx.Response) -> ExportTraceServiceResponse:
    assert (response.status_code, response.headers["Content-Type"]) == (200, PROTOBUF)
    answer: ExportTraceServiceResponse = ExportTraceServiceResponse.FromString(response.content)
    return answer


def with_resource(body: bytes, values: Mapping[str, object], without: str = "") -> bytes:
    """The request with the resource of its first group changed."""
    request = ExportTraceServiceRequest.FromString(body)
    attributes = request.resource_spans[0].resource.attributes
    kept = [one for one in attributes if one.key != without and one.key not in values]
    del attributes[:]
    attributes.extend([*kept, *(attribute(name, value) for name, value in values.items())])
    changed: bytes = request.SerializeToString()
    return changed


# ---------------------------------------------------------------- what is taken


def test_good_spans_are_stored_and_acknowledged_without_a_word(host1: Sender, made: Made, facts: Rows) -> None:
    answer = accepted(host1.post(export(made(READ, seq=1), made(READ, seq=2))))
    assert not answer.HasField("partial_success")
    assert [row["seq"] for row in facts("seq")] == [1, 2]


def test_gzip_is_taken(host1: Sender, made: Made, facts: Rows) -> None:
    accepted(host1.post(gzip.compress(export(made(READ))), {"Content-Encoding": "gzip"}))
    assert [row["seq"] for row in facts("seq")] == [1]


def test_gzip_in_several_members_is_taken(host1: Sender, made: Made, facts: Rows) -> None:
    body = export(made(READ))
    accepted(host1.post(gzip.compress(body[:100]) + gzip.compress(body[100:]), {"Content-Encoding": "gzip"}))
    assert [row["seq"] for row in facts("seq")] == [1]


@pytest.mark.parametrize("headers", [{"Content-Encoding": "identity"}, {"Content-Type": f"{PROTOBUF}; charset=x"}])
def test_the_usual_in_other_words_is_taken(headers: Mapping[str, str], host1: Sender, made: Made) -> None:
    accepted(host1.post(export(made(READ)), headers))


def test_an_empty_export_is_fine(host1: Sender) -> None:
    assert accepted(host1.post(b"")) == ExportTraceServiceResponse()


def test_an_empty_export_in_gzip_is_fine(host1: Sender) -> None:
    accepted(host1.post(gzip.compress(b""), {"Content-Encoding": "gzip"}))


def test_resources_without_spans_are_fine(host1: Sender, made: Made, facts: Rows) -> None:
    request = message(made(READ))
    del request.resource_spans[0].scope_spans[:]
    accepted(host1.post(request.SerializeToString()))
    assert facts("seq") == []


def test_several_emitters_in_one_request_are_each_stored(host1: Sender, made: Made, facts: Rows) -> None:
    accepted(host1.post(export(*(made(READ, emitter=f"host1/rank{rank}", seq=rank) for rank in (1, 2, 3)))))
    assert facts("emitter, seq") == [{"emitter": f"host1/rank{rank}", "seq": rank} for rank in (1, 2, 3)]


def test_what_the_resource_says_besides_is_ignored(host1: Sender, made: Made, facts: Rows) -> None:
    accepted(host1.post(with_resource(export(made(READ)), {"telemetry.sdk.name": "opentelemetry", "n": 5})))
    assert len(facts("seq")) == 1


def test_bad_spans_are_said_in_a_partial_success(host1: Sender, made: Made, facts: Rows) -> None:
    bad = made(READ, seq=2, without=["tenant.id"])
    answer = accepted(host1.post(export(made(READ, seq=1), bad))).partial_success
    assert (answer.rejected_spans, answer.error_message) == (
        1,
        "1 of 2 spans refused: 1 missing_attribute:tenant.id",
    )
    assert [row["seq"] for row in facts("seq")] == [1]


def test_an_unknown_attribute_is_a_warning(host1: Sender, made: Made) -> None:
    answer = accepted(host1.post(export(made(READ, extra={"somebody.elses": "x"})))).partial_success
    assert answer.rejected_spans == 0
    assert answer.error_message == "1 spans stored without attributes that the contract does not have"


# ---------------------------------------------------------------- what is not

BAD_BODIES = {
    "not protobuf": (b"hello, world", {}, "is not an OTLP ExportTraceServiceRequest in protobuf"),
    "JSON for protobuf": (b'{"resourceSpans":[]}', {}, "is not an OTLP ExportTraceServiceRequest in protobuf"),
    "plain for gzip": (b"hello, world", {"Content-Encoding": "gzip"}, "is not gzip"),
    "nothing for gzip": (b"", {"Content-Encoding": "gzip"}, "ends too early"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_body_that_is_something_else_is_400(name: str, host1: Sender) -> None:
    body, headers, words = BAD_BODIES[name]
    response = host1.post(body, headers)
    assert response.status_code == 400
    assert words in said(response)


def test_a_truncated_message_is_400_and_nothing_of_it_is_stored(host1: Sender, made: Made, facts: Rows) -> None:
    body = export(*(made(READ, seq=seq) for seq in range(1, 20)))
    for size in (1, len(body) // 2, len(body) - 1):
        response = host1.post(body[:size])
        assert response.status_code == 400
        assert f"the body ({size} bytes) is not" in said(response)
    assert facts("seq") == []


@pytest.mark.parametrize("cut", [1, 8, 30])
def test_truncated_gzip_is_400_and_nothing_of_it_is_stored(cut: int, host1: Sender, made: Made, facts: Rows) -> None:
    packed = gzip.compress(export(made(READ)))[:-cut]
    response = host1.post(packed, {"Content-Encoding": "gzip"})
    assert response.status_code == 400
    assert said(response) == f"the gzip data ends too early, after {len(packed)} bytes"
    assert facts("seq") == []


def test_damaged_gzip_is_400(host1: Sender, made: Made) -> None:
    packed = bytearray(gzip.compress(export(made(READ))))
    packed[-6] ^= 1  # in the checksum
    response = host1.post(bytes(packed), {"Content-Encoding": "gzip"})
    assert response.status_code == 400
    assert "damaged" in said(response)


def test_text_that_is_not_utf8_is_400(host1: Sender, made: Made) -> None:
    body = export(made(READ)).replace(b"customer", b"custome\xff")
    assert host1.post(body).status_code == 400


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("service.instance.id", None, "the resource has no service.instance.id"),
        ("service.instance.id", 5, "service.instance.id must be a string"),
        ("service.instance.id", "host1", "service.instance.id must be <prefix>/<name>"),
        ("service.instance.id", "host1/a b", "service.instance.id must be <prefix>/<name>"),
        ("service.instance.id", "host1/" + "x" * 256, "service.instance.id must be <prefix>/<name>"),
        ("pagewitness.boot", None, "the resource has no pagewitness.boot"),
        ("pagewitness.boot", "AB" * 16, "pagewitness.boot must be 32 lower-case hex digits"),
        ("pagewitness.boot", "00" * 16, "pagewitness.boot must be 32 lower-case hex digits"),
        ("pagewitness.contract", None, "the resource has no pagewitness.contract"),
        ("pagewitness.contract", "1", "pagewitness.contract must be a int"),
        ("pagewitness.contract", 0, "pagewitness.contract must be a contract version"),
        ("service.name", None, "the resource has no service.name"),
    ],
)
def test_a_resource_that_does_not_say_who_speaks_is_400(
    name: str, value: object, words: str, host1: Sender, made: Made, facts: Rows
) -> None:
    changed = {} if value is None else {name: value}
    response = host1.post(with_resource(export(made(READ)), changed, without=name))
    assert response.status_code == 400
    assert words in said(response)
    assert said(response).startswith("resource_spans[0]: ")
    assert facts("seq") == []


def test_a_resource_that_names_two_emitters_is_400(host1: Sender, made: Made) -> None:
    request = message(made(READ))
    request.resource_spans[0].resource.attributes.append(attribute("service.instance.id", "host1/other"))
    response = host1.post(request.SerializeToString())
    assert response.status_code == 400
    assert said(response) == "resource_spans[0]: the resource has service.instance.id twice"


def test_the_group_that_is_wrong_is_named_and_the_others_are_not_stored(host1: Sender, made: Made, facts: Rows) -> None:
    request = message(made(READ, emitter="host1/a"), made(READ, emitter="host1/b"))
    request.resource_spans[1].ClearField("resource")
    response = host1.post(request.SerializeToString())
    assert response.status_code == 400
    assert said(response).startswith("resource_spans[1]: ")
    assert facts("seq") == []


def test_a_newer_contract_is_to_come_again_when_the_collector_is_newer(host1: Sender, made: Made) -> None:
    response = host1.post(export(made(READ), contract=CONTRACT_VERSION + 1))
    assert (response.status_code, response.headers["Retry-After"]) == (503, "60")
    assert "upgrade the collector" in said(response)


@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream", ""])
def test_another_content_type_is_415(content_type: str, host1: Sender, made: Made) -> None:
    response = host1.post(export(made(READ)), {"Content-Type": content_type})
    assert response.status_code == 415
    assert said(response) == "send Content-Type application/x-protobuf, protobuf only"


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip, gzip"])
def test_another_encoding_is_415(encoding: str, host1: Sender, made: Made) -> None:
    response = host1.post(export(made(READ)), {"Content-Encoding": encoding})
    assert response.status_code == 415
    assert said(response) == "send Content-Encoding gzip, or none"


@pytest.mark.parametrize("seed", range(4))
def test_damaged_requests_are_refused_or_counted_and_the_next_one_works(
    seed: int, host1: Sender, made: Made, facts: Rows
) -> None:
    draw = random.Random(seed)
    good = export(made(READ, seq=1), made("pagewitness.page.release", seq=2, pages=[4, 5, 9]))
    outcomes = Counter(host1.post(damaged(good, draw)).status_code for _ in range(25))
    assert outcomes.keys() <= {200, 400, 403}
    assert outcomes[400] > 0
    accepted(host1.post(export(made(READ, seq=3))))
    assert 3 in [row["seq"] for row in facts("seq")]


def damaged(body: bytes, draw: random.Random) -> bytes:
    """The body with a few bytes changed, lost or added."""
    changed = bytearray(body)
    for _ in range(draw.randint(1, 4)):
        place, size = draw.randrange(len(changed)), draw.randint(0, 6)
        changed[place : place + draw.randint(0, 6)] = draw.randbytes(size)
    return bytes(changed)


# ---------------------------------------------------------------- who may post


@pytest.mark.parametrize("header", ["", "Bearer", "Basic abc", "Bearer nonsense", "Bearer pw_0_0"])
def test_without_a_token_that_is_known_it_is_401(header: str, host1: Sender, made: Made, facts: Rows) -> None:
    response = host1.post(export(made(READ)), {"Authorization": header})
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "token" in said(response)
    assert facts("seq") == []


def test_the_id_of_a_token_with_another_secret_is_401(host1: Sender, made: Made) -> None:
    forged = host1.token[:16] + secrets.token_urlsafe(32)
    response = host1.post(export(made(READ)), {"Authorization": f"Bearer {forged}"})
    assert response.status_code == 401


def test_a_revoked_token_is_401_at_once(url: str, store: Store, made: Made) -> None:
    host4 = sender(url, store.data_dir, "host4")
    accepted(host4.post(b""))
    revoke_token(store.data_dir, host4.token.split("_")[1])
    assert host4.post(b"").status_code == 401


@pytest.mark.parametrize("emitter", ["host2/decode", "host10/decode", "host1x/decode", "other/host1/decode"])
def test_an_emitter_outside_the_prefix_of_the_token_is_403(
    emitter: str, host1: Sender, made: Made, facts: Rows
) -> None:
    response = host1.post(export(made(READ, emitter="host1/own"), made(READ, emitter=emitter)))
    assert response.status_code == 403
    assert f"is for emitters host1/..., and not for {emitter}" in said(response)
    assert facts("seq") == []


def test_a_boot_that_another_token_claimed_is_403(
    url: str, store: Store, host1: Sender, made: Made, facts: Rows, boot: str
) -> None:
    accepted(host1.post(export(made(READ, seq=1))))
    response = sender(url, store.data_dir, "host1").post(export(made(READ, seq=2)))
    assert response.status_code == 403
    assert said(response) == f"boot {boot} of host1/decode-31001-tp0 was claimed under another token"
    assert [row["seq"] for row in facts("seq")] == [1]


def test_a_boot_of_another_emitter_is_claimed_apart(url: str, store: Store, host1: Sender, made: Made) -> None:
    accepted(host1.post(export(made(READ, emitter="host1/a"))))
    accepted(sender(url, store.data_dir, "host1").post(export(made(READ, emitter="host1/b"))))


def test_claims_hold_over_a_restart(url: str, store: Store, host1: Sender, made: Made, boot: str) -> None:
    accepted(host1.post(export(made(READ))))
    restarted = Claims(store.handle())
    assert restarted.claim("host1/decode-31001-tp0", boot, "somebody") == host1.token.split("_")[1]


def test_a_refused_request_does_not_claim(url: str, store: Store, host1: Sender, made: Made) -> None:
    mixed = export(made(READ, emitter="host1/a"), made(READ, emitter="host2/b"))
    assert host1.post(mixed).status_code == 403
    accepted(sender(url, store.data_dir, "host1").post(export(made(READ, emitter="host1/a"))))
