"""Which token positions a forward covered or attended over."""

from __future__ import annotations

from types import SimpleNamespace

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake


def running(rig: Rig, rid: str) -> fake.Req:
    req = rig.admit(fake.Req(rid))
    rig.reserve(req, 10, 11, 12)
    rig.commit(req)
    return req


def test_each_request_of_a_batch_has_its_own_length(decode: Rig) -> None:
    one, two = running(decode, "one"), running(decode, "two")
    decode.steps.after_run_batch(None, decode.scheduler, fake.decode_batch((one, 11), (two, 31)))
    assert [fact["read.tokens"] for fact in decode.every("read:first")] == [11, 31]


def test_a_request_that_joins_a_running_batch_has_a_first_read_of_its_own(decode: Rig) -> None:
    one, two = running(decode, "one"), running(decode, "two")
    decode.steps.after_run_batch(None, decode.scheduler, fake.decode_batch((one, 11)))
    decode.steps.after_run_batch(None, decode.scheduler, fake.decode_batch((one, 12), (two, 11)))
    assert len(decode.every("read:first")) == 2


def test_the_longest_step_is_the_last_read_whatever_came_after_it(decode: Rig) -> None:
    req = running(decode, "one")
    for tokens in (11, 15, 13):
        decode.steps.after_run_batch(None, decode.scheduler, fake.decode_batch((req, tokens)))
    decode.finish(req)
    assert decode.only("read:last")["read.tokens"] == 15


def test_an_idle_batch_says_nothing(decode: Rig) -> None:
    batch = SimpleNamespace(forward_mode=fake.ForwardMode.IDLE, reqs=[])
    decode.steps.after_run_batch(None, decode.scheduler, batch)
    assert decode.facts == []


def test_a_prompt_that_is_computed_is_not_a_read(prefill: Rig) -> None:
    prefill.extend(prefill.admit(fake.Req()), 0, 10)
    assert prefill.story() == ["admission:admitted"]


def test_in_a_mixed_batch_the_decoding_requests_read(prefill: Rig) -> None:
    prefill.legs.limits.role = "unified"
    computing, decoding = prefill.admit(fake.Req("computing")), prefill.admit(fake.Req("decoding"))
    for req in (computing, decoding):
        req.kv = fake.Kv(1, 12, 12)
    batch = fake.extend_batch((computing, 0, 10), (decoding, 11, 12), decoding=(decoding,))
    prefill.steps.after_run_batch(None, prefill.scheduler, batch)
    assert [fact["read.tokens"] for fact in prefill.every("read:first")] == [12]


def test_a_row_generation_on_the_gpu_is_left_alone(decode: Rig) -> None:
    decode.scheduler.req_to_token_pool.req_generation = fake.Tensor([5] * 8, "cuda")
    req = running(decode, "one")
    decode.step(req)
    fact = decode.only("read:first")
    assert fact["row"] == 1
    assert "row_generation" not in fact


def test_a_leg_whose_first_sight_is_a_step_is_admitted_first(decode: Rig) -> None:
    req = fake.Req(kv=fake.Kv(1, 10, 10))
    decode.step(req)
    assert decode.story() == ["admission:admitted", "read:first"]
