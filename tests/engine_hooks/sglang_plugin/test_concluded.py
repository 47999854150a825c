"""What prefill ranks say of their part of a transfer, heard on the engine's transfer threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine_hooks.sglang_plugin.concluded import _MOST_WORDS
from tests.engine_hooks.sglang_plugin.support import Rig, hook_errors
from tests.support import fake_sglang as fake

FAILED, TRANSFERRING, SUCCESS = 0, 3, 4


def receiving(rig: Rig, rid: str = "a", room: int = 11) -> fake.Req:
    req = rig.admit(fake.Req(rid, bootstrap_room=room))
    rig.queue.append(req)
    rig.reserve(req, 10, 11, 12)
    rig.manager.request_status[room] = TRANSFERRING
    return req


def sending(rig: Rig) -> fake.Req:
    req = rig.admit(fake.Req("a"))
    rig.queue.append(req)
    rig.bootstrap(req, fake.transfer_info(fake.pages(4, 5, 6)))
    rig.manager.request_status[req.bootstrap_room] = TRANSFERRING
    return req


def heard(rig: Rig, *, room: int = 11, status: int = SUCCESS, rank: int = 0, **given: Any) -> None:
    rig.concluded.before_prefill_status(rig.manager, bootstrap_room=room, status=status, prefill_rank=rank, **given)


def says(rig: Rig, *, room: int = 11, status: int = SUCCESS, **given: Any) -> None:
    rig.concluded.before_conclude(rig.manager, bootstrap_room=room, status=status, **given)


# ---------------------------------------------------------------------- decode


def test_decode_records_the_word_of_each_prefill_rank(decode: Rig) -> None:
    receiving(decode)
    heard(decode, rank=0)
    heard(decode, rank=3)
    facts = decode.every("transfer:landed")
    assert [(fact["transfer.side"], fact["peer.rank"]) for fact in facts] == [("receive", 0), ("receive", 3)]


def test_a_rank_that_repeats_itself_says_nothing_new(decode: Rig) -> None:
    receiving(decode)
    heard(decode)
    heard(decode)
    assert len(decode.every("transfer:landed")) == 1


def test_a_peer_cannot_fill_the_ring_with_ranks_that_it_makes_up(decode: Rig) -> None:
    receiving(decode)
    for rank in range(_MOST_WORDS + 100):
        heard(decode, rank=rank)
    assert len(decode.every("transfer:landed")) == _MOST_WORDS


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("Aborted by AbortReq.", "aborted"),
        ("Request 11 timed out after 300.0s in KVPoll.WaitingForInput", "timeout"),
        ("Lost connection with prefill instance (bootstrap_addr: 10.0.0.9:31998)", "peer_lost"),
        ("Failed to send kv chunk of 11 to 10.0.0.9:4000", "other"),
        (None, "other"),
    ],
)
def test_of_a_failure_one_word_is_kept(decode: Rig, reason: str | None, failure: str) -> None:
    receiving(decode)
    heard(decode, status=FAILED, failure_reason=reason)
    assert decode.only("transfer:failed")["failure"] == failure


def test_a_status_that_ends_nothing_is_no_conclusion(decode: Rig) -> None:
    receiving(decode)
    heard(decode, status=2)
    assert decode.story()[-1] == "transfer:reserved"


def test_a_word_for_a_room_that_the_engine_has_closed_is_not_taken(decode: Rig) -> None:
    """The engine drops it, too: a later request may have the same room."""
    receiving(decode)
    del decode.manager.request_status[11]
    heard(decode)
    assert "transfer:landed" not in decode.story()


def test_a_word_for_a_leg_that_is_over_is_not_taken(decode: Rig) -> None:
    req = receiving(decode)
    decode.finish(req)
    heard(decode)
    assert decode.story()[-1] == "end:finished"
    assert decode.complete()


# ---------------------------------------------------------------------- prefill


def test_prefill_says_that_its_part_has_landed(prefill: Rig) -> None:
    sending(prefill)
    says(prefill)
    fact = prefill.only("transfer:landed")
    assert fact["transfer.side"] == "send"
    assert "peer.rank" not in fact


@pytest.mark.parametrize("known", ["status", "record"])
def test_a_success_after_a_failure_is_none(prefill: Rig, known: str) -> None:
    req = sending(prefill)
    if known == "status":
        prefill.manager.request_status[req.bootstrap_room] = FAILED
    else:
        prefill.manager.failure_records[req.bootstrap_room] = "Decode instance could be dead, ..."
    says(prefill)
    assert "transfer:landed" not in prefill.story()
    assert prefill.only("transfer:failed")["failure"] == ("other" if known == "status" else "peer_lost")


def test_a_retracted_request_that_keeps_its_room_is_its_new_leg(decode: Rig) -> None:
    req = receiving(decode)
    decode.parts.handlers["release"].before_reset(req)
    receiver = decode.reserve(req, 20, 21, is_rebootstrap=True)
    assert receiver is not None
    heard(decode)
    facts = [fact for fact in decode.facts if fact.values.get("pagewitness.transfer.status") == "landed"]
    resumed = [fact for fact in decode.facts if "pagewitness.leg.resumes" in fact.values]
    assert [fact.leg and fact.leg.uid for fact in facts] == [fact.leg and fact.leg.uid for fact in resumed]


# ---------------------------------------------------------------------- one room, two legs


def test_of_a_room_that_two_live_legs_have_nothing_is_said_and_neither_is_complete(decode: Rig) -> None:
    first, second = receiving(decode, "a"), receiving(decode, "b")
    heard(decode)
    for req in (first, second):
        decode.finish(req)
    assert "transfer:landed" not in decode.story()
    for req in (first, second):
        ordinals = [fact.leg.ordinal for fact in decode.leg(req) if fact.leg]
        assert ordinals != list(range(1, len(ordinals) + 1))


def test_what_comes_after_one_of_them_has_ended_is_not_guessed_either(decode: Rig) -> None:
    first, second = receiving(decode, "a"), receiving(decode, "b")
    decode.finish(first)
    heard(decode)
    decode.finish(second)
    assert "transfer:landed" not in decode.story()
    assert not decode.complete()


def test_a_shared_room_makes_no_more_gaps_than_there_are_words(decode: Rig) -> None:
    receiving(decode, "a"), receiving(decode, "b")
    for _ in range(50):
        heard(decode)
    assert hook_errors(decode) == 2


# ---------------------------------------------------------------------- threads


def test_the_scheduler_and_the_transfer_threads_number_the_facts_of_a_leg_together(prefill: Rig) -> None:
    """One ring lane a thread; of one leg no ordinal is given twice."""
    reqs = []
    for number in range(200):
        req = prefill.admit(fake.Req(f"r{number}", bootstrap_room=1000 + number))
        prefill.manager.request_status[req.bootstrap_room] = TRANSFERRING
        prefill.bootstrap(req, fake.transfer_info(fake.pages(4, 5, 6)))
        reqs.append(req)

    def conclude_all() -> None:
        for req in reqs:
            says(prefill, room=req.bootstrap_room)

    worker = threading.Thread(target=conclude_all)
    worker.start()
    for req in reqs:
        prefill.send(req.disagg_kv_sender, fake.pages(20, 21, 22), 10)
    worker.join()
    for req in reqs:
        prefill.finish(req)
    assert len(prefill.every("transfer:landed")) == 200
    assert prefill.complete()
