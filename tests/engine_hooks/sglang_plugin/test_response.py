"""What the engine told the client's side, in the contract's words and nobody else's."""

from __future__ import annotations

import logging

import pytest

from engine_hooks.conventions import FINISH, REASON
from engine_hooks.sglang_plugin.wording import finish_of, reason_of
from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake

MARKER = "acme-merger-draft"


def answering(rig: Rig, *, stream: bool = False, sent: int = 0) -> fake.Req:
    req = rig.admit(fake.Req(origin_input_ids=[7] * 10, stream=stream, send_token_offset=sent))
    rig.reserve(req, 10, 11, 12)
    rig.commit(req)
    for _ in range(4):
        rig.step(req)
    return req


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (fake.FINISH_LENGTH(), "length"),
        (fake.FINISH_MATCHED_TOKEN(), "stop"),
        (fake.FINISH_ABORT(), "abort"),
        ("a reason of tomorrow", "other"),
    ],
    ids=["length", "stop", "abort", "other"],
)
def test_how_an_answer_ended(reason: object, word: str) -> None:
    assert finish_of(reason) == word
    assert word in FINISH.choices


def test_counts_are_those_of_the_answer(decode: Rig) -> None:
    decode.finish(answering(decode))
    fact = decode.only("response:length")
    assert fact["gen_ai.usage.input_tokens"] == 10
    assert fact["gen_ai.usage.output_tokens"] == fact["tokens_delivered"] == 5
    assert "http.response.status_code" not in fact


@pytest.mark.parametrize(
    ("status", "stream", "sent", "delivered"),
    [
        pytest.param(400, False, 0, 0, id="an error is answered with the error alone"),
        pytest.param(500, False, 5, 0, id="tokens that only the detokenizer had did not go out"),
        pytest.param(500, True, 3, 3, id="what was streamed before the error is out"),
        pytest.param(None, False, 0, 5, id="a withdrawn request hands over what there is"),
        pytest.param(None, True, 3, 5, id="a withdrawn stream too"),
    ],
)
def test_what_an_abort_can_have_delivered(
    decode: Rig, status: int | None, stream: bool, sent: int, delivered: int
) -> None:
    decode.finish(answering(decode, stream=stream, sent=sent), fake.FINISH_ABORT("x", status))
    fact = decode.only("response:abort")
    assert fact["tokens_delivered"] == delivered
    assert fact.get("http.response.status_code") == status


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Input length (1500 tokens) exceeds the maximum allowed length (1018 tokens).", "input_too_long"),
        ("Multimodal prompt is too long after expanding multimodal tokens. ", "input_too_long"),
        ("Request prompt exceeds the KV memory budget: input_len=9.", "input_too_long"),
        ("Request abc exceeds the maximum number of tokens: 9 > 8", "input_too_long"),
        (f"Failed to compile regex grammar: {MARKER}", "grammar"),
        ("Grammar preprocessing timed out: req.grammar_key=('regex', 'x')", "grammar"),
        ("Grammar-based generation (json_schema) is not supported", "grammar"),
        ("Invalid request: Disaggregated request received without bootstrap room id. req.rid='x'", "no_room"),
        ("Invalid request: session id x does not exist", "unsupported"),
        ("return_sampling_mask is not supported with speculative decoding.", "unsupported"),
        ("Aborted by AbortReq.", "other"),
        (MARKER, "other"),
        ("", "other"),
        (None, "other"),
        (b"Input length (", "other"),
    ],
)
def test_why_a_request_was_rejected_is_a_word_of_the_contract(message: object, reason: str) -> None:
    assert reason_of(message) == reason
    assert reason in REASON.choices


def test_an_error_of_the_multimodal_processor_is_known_by_its_type() -> None:
    assert reason_of("cannot read the image", "InternalServerError") == "multimodal"


def test_no_text_of_a_client_reaches_the_ring_or_the_log(decode: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Markers in rid, room, salt, a rejection and an abort; a run of token ids in prompt and answer."""
    ids = [1_000_001 + 7 * place for place in range(16)]
    req = fake.Req(f"rid-{MARKER}", list(ids), f"room-{MARKER}", f"1.{MARKER}.x", output_ids=list(ids))
    with caplog.at_level(logging.DEBUG):
        decode.arrive(req)
        decode.reject(req, f"Failed to compile regex grammar: {MARKER}")
        decode.admission.after_add(None, decode.scheduler, req)
        decode.reserve(req, 10)
        decode.commit(req)
        decode.step(req)
        decode.finish(req, fake.FINISH_ABORT(f"Failed to compile regex grammar: {MARKER}", 400))
    stored = decode.ring.path.read_bytes()
    assert len(decode.facts) == 7
    assert MARKER.encode() not in stored
    assert MARKER not in caplog.text
    for width in (4, 8):
        run = b"".join(number.to_bytes(width, "little") for number in ids[:8])
        assert run not in stored
