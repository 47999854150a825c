"""What the client asked for, and whether the node took it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_hooks.identity import Key, mint_salt, pseudonym
from tests.engine_hooks.sglang_plugin.support import MAC, NODE_BOOT, Rig
from tests.support import fake_sglang as fake

PSEUDONYM = Key("p-1", bytes(range(2, 34)))
ACME = mint_salt("acme", pseudonym_key=PSEUDONYM, mac_key=MAC)


def test_a_request_is_admitted_once_it_is_in(decode: Rig) -> None:
    decode.admit(fake.Req(origin_input_ids=[7] * 37))
    fact = decode.only("admission:admitted")
    assert fact["tokens.need"] == 37
    assert (fact["admission.reason"], fact["input.limit"], fact["context.tokens"]) == ("none", 100, 200)


def test_a_rejection_carries_the_length_from_before_the_placeholder(prefill: Rig) -> None:
    req = prefill.arrive(fake.Req(origin_input_ids=[7] * 150))
    prefill.reject(req)
    prefill.admission.after_add(None, prefill.scheduler, req)  # 0.5.19 goes on with the placeholder
    fact = prefill.only("admission:rejected")
    assert (fact["tokens.need"], fact["admission.reason"], fact["http.response.status_code"]) == (
        150,
        "input_too_long",
        400,
    )
    assert prefill.story() == ["admission:rejected"]


def test_only_the_first_rejection_counts(prefill: Rig) -> None:
    req = prefill.arrive(fake.Req(origin_input_ids=[7] * 150))
    prefill.reject(req)
    prefill.reject(req, "Failed to compile regex grammar: x")
    assert prefill.only("admission:rejected")["tokens.need"] == 150


def test_the_length_is_that_of_the_client_even_where_the_engine_cuts_it(decode: Rig) -> None:
    req = fake.Req(origin_input_ids=[7] * 90)
    decode.arrive(req, tokens=140)
    decode.admission.after_add(None, decode.scheduler, req)
    assert decode.only("admission:admitted")["tokens.need"] == 140


def test_a_grammar_that_fails_later_is_a_second_word_on_the_same_leg(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.reject(req, "Failed to compile regex grammar: x")
    assert decode.story() == ["admission:admitted", "admission:rejected"]
    assert decode.only("admission:rejected")["admission.reason"] == "grammar"


def test_a_request_told_off_before_it_was_queued_ends_with_its_rejection(decode: Rig) -> None:
    req = decode.arrive(fake.Req(bootstrap_room=None))
    req.finished_reason = fake.FINISH_ABORT(
        "Invalid request: Disaggregated request received without bootstrap room id. req.rid='x'", 400
    )
    decode.stream(req)
    assert decode.story() == ["admission:rejected", "response:abort", "end:rejected"]
    fact = decode.only("admission:rejected")
    assert fact["admission.reason"] == "no_room"
    assert "room" not in fact


def test_a_capacity_check_inside_the_queue_is_a_rejection_too(decode: Rig) -> None:
    req = decode.arrive(fake.Req())
    req.finished_reason = fake.FINISH_ABORT("Request request-1 exceeds the maximum number of tokens: 9 > 8", 400)
    decode.stream(req)  # inside the call that the next line ends
    decode.admission.after_add(None, decode.scheduler, req)
    assert decode.story() == ["admission:rejected", "response:abort", "end:rejected"]
    assert decode.only("admission:rejected")["admission.reason"] == "input_too_long"


def test_a_verified_salt_attributes_the_leg(decode: Rig) -> None:
    decode.admit(fake.Req(cache_salt=ACME))
    (leg,) = {fact.leg for fact in decode.facts}
    assert leg is not None
    assert (leg.tenant, leg.tenant_key, leg.traffic) == (pseudonym(PSEUDONYM, "acme"), "p-1", "customer")


BAD_SALTS = {
    "none": None,
    "empty": "",
    "a name": "acme",
    "another mac": ACME[:-1] + ("0" if ACME[-1] != "0" else "1"),
    "another case": ACME.upper(),
    "a number": 7,
    "a huge number": 10**5000,
    "bytes": b"acme",
    "a list": ["acme"],
    "lone surrogates": "\ud800" * 9,
}
RIDS = {
    "empty": "",
    "long": "x" * 100_000,
    "odd characters": "\ud800\U0001f600\u202e\0",
    "none": None,
    "a number": 5,
    "bytes": b"rid",
}
ROOMS = {
    "none": None,
    "zero": 0,
    "negative": -1,
    "beyond 63 bits": 2**63,
    "huge": 10**5000,
    "text": "12",
    "a lone surrogate": "\ud800",
    "a fraction": 1.5,
    "a list": ["room"],
}


@pytest.mark.parametrize("kind", BAD_SALTS)
def test_any_other_salt_leaves_it_unattributed(decode: Rig, kind: str) -> None:
    decode.admit(fake.Req(cache_salt=BAD_SALTS[kind]))
    (leg,) = {fact.leg for fact in decode.facts}
    assert leg is not None
    assert (leg.tenant, leg.tenant_key) == ("unattributed", "")


@pytest.mark.parametrize("rid", RIDS)
@pytest.mark.parametrize("room", ROOMS)
def test_whatever_a_client_sends_as_rid_and_room_is_recorded(decode: Rig, rid: str, room: str) -> None:
    req = fake.Req(RIDS[rid], bootstrap_room=ROOMS[room])
    decode.admit(req)
    decode.stream_abort(req)
    assert decode.story() == ["admission:admitted", "response:abort", "end:aborted"]
    assert decode.complete()


def test_a_repeated_rid_and_room_is_another_leg(decode: Rig) -> None:
    first, second = fake.Req("same", bootstrap_room=5), fake.Req("same", bootstrap_room=5)
    decode.admit(first)
    decode.admit(second)
    assert len({fact.leg.uid for fact in decode.facts if fact.leg}) == 2


def test_a_copy_of_a_request_is_not_the_owner_of_its_leg(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    copy = fake.Req()
    copy.__dict__.update(req.__dict__)
    decode.admit(copy)
    assert len({fact.leg.uid for fact in decode.facts if fact.leg}) == 2


def test_every_rank_of_a_node_comes_to_the_same_uids(tmp_path: Path) -> None:
    ranks = [Rig(tmp_path / name, role="decode") for name in ("tp0", "tp1")]
    for rank in ranks:
        for rid, room in [("a", 1), ("b", 2), ("a", 1), ("a", 3)]:
            rank.admit(fake.Req(rid, bootstrap_room=room))
    first, second = ([fact.leg.uid for fact in rank.facts if fact.leg] for rank in ranks)
    assert first == second
    assert len(set(first)) == 4


def test_another_boot_of_the_node_makes_other_uids(tmp_path: Path) -> None:
    before = Rig(tmp_path / "before")
    after = Rig(tmp_path / "after", node_boot=NODE_BOOT[::-1])
    for node in (before, after):
        node.admit(fake.Req())
    assert before.facts[0].leg != after.facts[0].leg


def test_nothing_is_recorded_before_the_scheduler_is_built(tmp_path: Path) -> None:
    rig = Rig(tmp_path, records=False)
    req = rig.admit(fake.Req())
    rig.reserve(req, 10)
    rig.step(req)
    rig.finish(req)
    assert rig.facts == []
