"""The life of a leg: which facts it has on each way through the engine, and that its end is always the last."""

from __future__ import annotations

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake

ORDINARY_DECODE = [
    "admission:admitted", "transfer:reserved", "transfer:committed", "read:first", "read:last", "release:immediate",
    "response:length", "end:finished",
]  # fmt: skip


def decoding(rig: Rig, steps: int = 3, **given: object) -> fake.Req:
    req = rig.admit(fake.Req(**given))  # type: ignore[arg-type]
    rig.reserve(req, 10, 11, 12)
    rig.commit(req)
    for _ in range(steps):
        rig.step(req)
    return req


def test_an_ordinary_decode_leg(decode: Rig) -> None:
    decode.finish(decoding(decode))
    assert decode.story() == ORDINARY_DECODE
    assert decode.complete()


def test_an_ordinary_prefill_leg(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    sender = prefill.bootstrap(req, fake.transfer_info(fake.pages(4, 5, 6)))
    prefill.extend(req, 0, 10)
    prefill.send(sender, fake.pages(10, 11, 12), 10)
    req.output_ids.append(1)
    prefill.finish(req)
    assert prefill.story() == [
        "admission:admitted", "transfer:destination", "transfer:queued", "release:immediate", "response:length",
        "end:finished",
    ]  # fmt: skip
    assert prefill.complete()


def test_an_answer_of_one_token_is_never_read_on_decode(decode: Rig) -> None:
    decode.finish(decoding(decode, steps=0))
    assert [word for word in decode.story() if word.startswith("read")] == []
    assert decode.complete()


def test_a_failed_transfer_is_answered_first_and_released_after(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.reserve(req, 10, 11, 12)
    req.finished_reason = fake.FINISH_ABORT("Decode transfer failed for request", 500)
    decode.stream(req)
    decode.release(req)
    assert decode.story()[2:] == ["response:abort", "release:immediate", "end:failed"]
    assert decode.complete()


def test_a_refused_transfer(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.reserve(req, 10, 11, 12)
    decode.commit(req, accepted=False)
    req.finished_reason = fake.FINISH_ABORT("Metadata corruption detected", 500)
    decode.stream(req)
    decode.release(req)
    assert "transfer:refused" in decode.story()
    assert "transfer:committed" not in decode.story()


def test_a_rejected_prompt_that_prefill_goes_on_with(prefill: Rig) -> None:
    """0.5.19: the placeholder is computed, sent and answered as if it were the prompt."""
    req = prefill.arrive(fake.Req(origin_input_ids=[7] * 150))
    prefill.reject(req)
    prefill.admission.after_add(None, prefill.scheduler, req)
    sender = prefill.bootstrap(req, fake.transfer_info(fake.pages(*range(38))))
    prefill.extend(req, 0, 1)
    prefill.send(sender, fake.pages(10), 1)
    prefill.finish(req)
    assert prefill.story()[0] == "admission:rejected"
    assert prefill.story()[-1] == "end:finished"
    assert prefill.only("end:finished")["queued.tokens"] == 1


def test_a_rejected_prompt_that_is_turned_away(prefill: Rig) -> None:
    """0.5.20 and later: the answer goes out from inside the queue, and no page is ever held."""
    req = prefill.arrive(fake.Req(origin_input_ids=[7] * 150))
    prefill.reject(req)
    req.finished_reason = fake.FINISH_ABORT("Input length (150 tokens) exceeds", 400)
    prefill.stream(req)
    prefill.admission.after_add(None, prefill.scheduler, req)
    assert prefill.story() == ["admission:rejected", "response:abort", "end:rejected"]
    assert prefill.complete()


def test_a_failing_grammar_that_decode_commits_still_ends_rejected(decode: Rig) -> None:
    req = decode.arrive(fake.Req())
    decode.reject(req, "Failed to compile regex grammar: x")
    decode.admission.after_add(None, decode.scheduler, req)
    decode.reserve(req, 10)
    decode.commit(req)
    decode.finish(req, fake.FINISH_ABORT("Failed to compile regex grammar: x", 400))
    assert decode.story()[-1] == "end:rejected"


def test_an_abort_in_a_queue_goes_past_the_output_stream(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.response.before_abort_message(req)
    assert decode.story() == ["admission:admitted", "response:abort", "end:aborted"]
    assert decode.complete()


def test_an_abort_message_before_the_release_of_a_waiting_leg(decode: Rig) -> None:
    req = decoding(decode, steps=0)
    decode.response.before_abort_message(req, {"type": "abort", "status_code": 503, "message": "queue full"})
    decode.release(req)
    assert decode.story()[-3:] == ["response:abort", "release:immediate", "end:failed"]


def test_a_release_before_the_abort_message_of_a_chunked_prompt(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 8)
    req.finished_reason = fake.FINISH_ABORT("Aborted")
    prefill.release(req)
    prefill.response.before_abort_message(req)
    assert prefill.story()[-3:] == ["release:immediate", "response:abort", "end:aborted"]
    assert prefill.complete()


def test_a_client_that_withdraws_during_the_transfer_is_an_abort_not_a_failure(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.reserve(req, 10)
    message = "Decode transfer failed for request with exception KVTransferError: Aborted by AbortReq."
    req.finished_reason = fake.FINISH_ABORT(message, 500)
    decode.stream(req)
    decode.release(req)
    assert decode.story()[-1] == "end:aborted"


def test_a_finished_request_that_is_streamed_twice_is_recorded_once(decode: Rig) -> None:
    req = decoding(decode)
    decode.finish(req)
    decode.stream(req)
    assert decode.story() == ORDINARY_DECODE


def test_a_step_that_was_in_flight_when_the_leg_ended_adds_nothing(decode: Rig) -> None:
    req = decoding(decode)
    decode.finish(req)
    decode.step(req)
    assert decode.story() == ORDINARY_DECODE


def test_requests_that_go_on_and_the_skipped_one_are_not_answered(decode: Rig) -> None:
    going, skipped = decoding(decode, rid="going"), decoding(decode, rid="skipped")
    skipped.finished_reason = fake.FINISH_LENGTH()
    decode.stream(going, skipped, skip_req=skipped)
    assert [word for word in decode.story() if word.startswith("response")] == []


def test_a_retracted_leg_ends_and_the_next_attempt_is_another(decode: Rig) -> None:
    req = decoding(decode)
    decode.parts.handlers["release"].before_retract(req=req)
    decode.release(req)
    decode.parts.handlers["release"].before_reset(req)
    decode.admission.after_add(None, decode.scheduler, req, is_retracted=True)
    req.kv = fake.Kv(2, 13, 13)
    decode.step(req)
    decode.step(req)
    decode.finish(req)
    assert decode.story()[-9:] == [
        "read:last", "release:retract", "end:retracted",
        "admission:admitted", "read:first", "read:last", "release:immediate", "response:length", "end:finished",
    ]  # fmt: skip
    assert decode.complete()
    assert len({fact.leg.uid for fact in decode.facts if fact.leg}) == 2


def test_a_resumed_leg_wrote_what_was_loaded_back_for_it(decode: Rig) -> None:
    req = decoding(decode)
    decode.parts.handlers["release"].before_retract(req=req)
    decode.release(req)
    decode.parts.handlers["release"].before_reset(req)
    decode.admission.after_add(None, decode.scheduler, req, is_retracted=True)
    req.kv = fake.Kv(2, 13, 13)
    decode.step(req)
    decode.finish(req)
    first, second = decode.every("release:retract")[0], decode.every("release:immediate")[0]
    assert (first["written.start"], first["written.end"]) == (10, 13)
    assert (second["written.start"], second["written.end"]) == (0, 14)


def test_a_prefill_that_gives_an_early_start_up_begins_a_new_leg(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 10)
    prefill.parts.handlers["release"].before_requeue(prefill.scheduler, req)
    prefill.release(req)
    prefill.parts.handlers["release"].before_reset(req)
    prefill.bootstrap(req, fake.transfer_info(fake.pages(1, 2, 3)))
    assert prefill.story()[1:] == [
        "release:retract", "end:retracted", "admission:admitted", "transfer:destination"
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["first", "last"])
def test_a_read_knows_the_row_and_its_generation(decode: Rig, word: str) -> None:
    decode.finish(decoding(decode))
    fact = decode.only(f"read:{word}")
    assert (fact["row"], fact["row_generation"]) == (1, 5)


def test_reads_are_the_first_step_and_the_longest(decode: Rig) -> None:
    decode.finish(decoding(decode, steps=5))
    assert decode.only("read:first")["read.tokens"] == 11
    assert decode.only("read:last")["read.tokens"] == 15


def test_a_single_step_is_one_read(decode: Rig) -> None:
    decode.finish(decoding(decode, steps=1))
    assert [word for word in decode.story() if word.startswith("read")] == ["read:first"]


def test_the_end_names_the_reservation(decode: Rig) -> None:
    decode.finish(decoding(decode))
    reserved = decode.only("transfer:reserved")["transfer.destination"]
    assert decode.only("end:finished")["transfer.destination"] == reserved
