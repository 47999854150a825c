"""What decode reserved and committed, what prefill was told and queued."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig, hook_errors
from tests.support import fake_sglang as fake


class Event:
    """A CUDA event that has passed, or not yet."""

    def __init__(self, *, passed: bool = False) -> None:
        self.passed = passed

    def query(self) -> bool:
        return self.passed


def sending(rig: Rig, tokens: int = 10) -> tuple[fake.Req, fake.Sender]:
    req = rig.admit(fake.Req(origin_input_ids=[7] * tokens))
    return req, rig.bootstrap(req, fake.transfer_info(fake.pages(4, 5, 6)))


# ---------------------------------------------------------------------- decode


def test_a_reservation_names_its_pages_in_order(decode: Rig) -> None:
    req = decode.admit(fake.Req(origin_input_ids=[7] * 12))
    decode.reserve(req, 9, 3, 17)
    fact = decode.only("transfer:reserved")
    assert list(fact["pages"]) == [9, 3, 17]
    assert (fact["page.count"], fact["prompt.tokens"], fact["slot"]) == (3, 12, 2)
    assert fact["transfer.session"] == fake.SESSION


def test_both_sides_come_to_one_destination_digest(decode: Rig, prefill: Rig) -> None:
    decode.reserve(decode.admit(fake.Req()), 9, 3, 17)
    prefill.bootstrap(prefill.admit(fake.Req(rid="another id")), fake.transfer_info(fake.pages(9, 3, 17)))
    reserved, received = decode.only("transfer:reserved"), prefill.only("transfer:destination")
    assert reserved["transfer.destination"] == received["transfer.destination"]
    assert reserved["room"] == received["room"]


def test_the_order_of_the_pages_is_part_of_the_digest(decode: Rig) -> None:
    decode.reserve(decode.admit(fake.Req("a")), 9, 3)
    decode.reserve(decode.admit(fake.Req("b")), 3, 9)
    assert len({fact["transfer.destination"] for fact in decode.every("transfer:reserved")}) == 2


def test_a_prefix_that_decode_has_is_not_part_of_the_reservation(decode: Rig) -> None:
    decode.reserve(decode.admit(fake.Req()), 11, 12, prefix=4)
    assert decode.only("transfer:reserved")["prefix.tokens"] == 4


def test_a_reservation_that_is_published_again_is_one_fact(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    receiver = decode.reserve(req, 10, 11)
    decode.transfer.before_send_metadata(receiver, fake.pages(10, 11), 2)
    assert decode.story() == ["admission:admitted", "transfer:reserved"]


def test_pages_of_a_host_pool_are_a_gap_not_a_reservation(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    receiver = fake.Receiver(decode.manager, req.bootstrap_room)
    decode.transfer.after_create_receiver(SimpleNamespace(kv_receiver=receiver), None, req)
    decode.transfer.before_send_metadata(receiver, fake.pages(1), 0, destination=SimpleNamespace(name="HOST"))
    decode.stream_abort(req)
    assert "transfer:reserved" not in decode.story()
    assert not decode.complete()


@pytest.mark.parametrize(
    ("receiver", "session"),
    [
        pytest.param(SimpleNamespace(kv_mgr=fake.Manager()), fake.SESSION, id="mooncake"),
        pytest.param(SimpleNamespace(kv_mgr=SimpleNamespace(engine_desc=SimpleNamespace(key="m"))), "m", id="mori"),
        pytest.param(SimpleNamespace(kv_mgr=SimpleNamespace(agent=SimpleNamespace(name="n"))), "n", id="nixl"),
        pytest.param(SimpleNamespace(), "none", id="no peers"),
    ],
)
def test_a_decode_rank_goes_by_the_name_that_prefill_files_it_under(decode: Rig, receiver: Any, session: str) -> None:
    req = decode.admit(fake.Req())
    decode.transfer.after_create_receiver(SimpleNamespace(kv_receiver=receiver), None, req)
    decode.transfer.before_send_metadata(receiver, fake.pages(1, 2), 0)
    assert decode.only("transfer:reserved")["transfer.session"] == session


def test_a_prompt_that_is_computed_again_includes_what_was_answered(decode: Rig) -> None:
    req = decode.admit(fake.Req(origin_input_ids=[7] * 10, output_ids=[1, 2, 3]))
    decode.reserve(req, 10, 11, 12, 13, is_rebootstrap=True)
    decode.commit(req)
    assert decode.only("transfer:reserved")["prompt.tokens"] == 13
    assert decode.only("transfer:committed")["prompt.tokens"] == 13


def test_committed_means_one_more_output_token(decode: Rig) -> None:
    taken, refused = decode.admit(fake.Req("taken")), decode.admit(fake.Req("refused"))
    for req in (taken, refused):
        decode.reserve(req, 10, 11, 12)
    decode.commit(taken)
    decode.commit(refused, accepted=False)
    assert [word for word in decode.story() if word in ("transfer:committed", "transfer:refused")] == [
        "transfer:committed",
        "transfer:refused",
    ]


def test_a_reservation_says_what_the_whole_transfer_is_made_of(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.manager.kv_args = SimpleNamespace(kv_item_lens=[64, 64, 32])
    receiver = fake.Receiver(decode.manager, req.bootstrap_room)
    receiver.required_prefill_response_num = 4  # type: ignore[attr-defined]
    decode.transfer.after_create_receiver(SimpleNamespace(kv_receiver=receiver), None, req)
    decode.transfer.before_send_metadata(receiver, fake.pages(1, 2), 0, [fake.pages(7, 8, 9), None, [5]])
    fact = decode.only("transfer:reserved")
    assert (fact["peers"], fact["page.bytes"], fact["state.pages"]) == (4, 160, 4)


def test_what_an_engine_does_not_say_is_left_out(decode: Rig) -> None:
    decode.reserve(decode.admit(fake.Req()), 9)
    assert not {"peers", "page.bytes", "state.pages"} & set(decode.only("transfer:reserved"))


@pytest.mark.parametrize(
    ("indices", "count"),
    [([1, 2, 3], 3), (fake.pages(4, 5), 2), ([fake.pages(4, 5)], 2), ([None, None], 0), ([[1], [2, 3]], 3)],
    ids=["numbers", "array", "kinds", "none", "lists"],
)
def test_state_indices_in_every_form_that_versions_have(decode: Rig, indices: Any, count: int) -> None:
    req = decode.admit(fake.Req())
    receiver = fake.Receiver(decode.manager, req.bootstrap_room)
    decode.transfer.after_create_receiver(SimpleNamespace(kv_receiver=receiver), None, req)
    decode.transfer.before_send_metadata(receiver, fake.pages(1), 0, indices)
    assert decode.only("transfer:reserved").get("state.pages", 0) == count


# ---------------------------------------------------------------------- prefill


def test_each_decode_rank_has_its_destination_and_a_dummy_has_none(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    infos = [
        fake.transfer_info(fake.pages(1, 2)),
        fake.transfer_info(fake.pages(), dummy=True),
        fake.transfer_info(fake.pages(8, 9), prefix=4, slot=6),
        SimpleNamespace(is_dummy=lambda: True),  # how NIXL's older versions say it
    ]
    prefill.bootstrap(req, *infos)
    facts = prefill.every("transfer:destination")
    assert [fact["transfer.session"] for fact in facts] == [f"{fake.SESSION}-0", f"{fake.SESSION}-2"]
    assert [(fact["page.count"], fact["prefix.tokens"], fact["slot"]) for fact in facts] == [(2, 0, 3), (2, 4, 6)]
    assert {fact["peers"] for fact in facts} == {2}


def test_a_bootstrap_that_is_not_final_says_nothing(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    prefill.transfer.after_finalize_bootstrap(False, None, req)
    assert prefill.story() == ["admission:admitted"]


def test_chunks_follow_each_other_in_the_destination_list(prefill: Rig) -> None:
    req, sender = sending(prefill)
    prefill.send(sender, fake.pages(20, 21), 8)
    prefill.send(sender, fake.pages(30), 2)
    prefill.finish(req)
    chunks = prefill.every("transfer:queued")
    assert [(list(chunk["pages"]), chunk["chunk.page"], chunk["chunk.tokens"]) for chunk in chunks] == [
        ([20, 21], 0, 8),
        ([30], 2, 2),
    ]
    assert {chunk["sender.pages"] for chunk in chunks} == {3}
    end = prefill.only("end:finished")
    assert (end["queued.pages"], end["queued.tokens"]) == (3, 10)


def test_the_sender_says_which_chunk_is_its_last_and_state_goes_with_that_one(prefill: Rig) -> None:
    _, sender = sending(prefill)
    prefill.send(sender, fake.pages(20, 21), 8, state=[fake.pages(7)])
    prefill.send(sender, fake.pages(30), 2, state=[fake.pages(7)], last=True)
    chunks = prefill.every("transfer:queued")
    assert [(chunk["chunk.last"], chunk.get("state.pages")) for chunk in chunks] == [(False, None), (True, 1)]


def test_a_send_that_the_engine_leaves_at_once_queues_nothing(prefill: Rig) -> None:
    """0.5.23 returns from `send` when the room has concluded: the calls inside never come."""
    req, sender = sending(prefill)
    prefill.transfer.before_send(sender, fake.pages(20), None, 4)
    prefill.finish(req)
    assert "transfer:queued" not in prefill.story()
    assert prefill.only("end:finished")["queued.pages"] == 0


@pytest.mark.parametrize("lost", ["failed", "unknown"])
def test_a_chunk_that_the_transfer_manager_drops_is_not_queued(prefill: Rig, lost: str) -> None:
    """0.5.19 counts the chunk although its manager dropped it without a word."""
    req, sender = sending(prefill)
    if lost == "failed":
        prefill.manager.request_status[req.bootstrap_room] = 0
    else:
        del prefill.manager.transfer_infos[req.bootstrap_room]
    prefill.send(sender, fake.pages(20, 21), 8)
    assert "transfer:queued" not in prefill.story()


class NixlKVManager(fake.Manager):
    """NIXL's manager is the one that queues for a failed room."""


def test_nixl_queues_for_a_room_that_has_failed(prefill: Rig) -> None:
    prefill.manager = NixlKVManager()
    req, sender = sending(prefill)
    prefill.manager.request_status[req.bootstrap_room] = 0
    prefill.send(sender, fake.pages(20, 21), 8)
    assert "transfer:queued" in prefill.story()


@pytest.mark.parametrize(
    ("keep", "first_page", "tokens"), [(slice(0, 2), 0, 8), (slice(2, 3), 2, 2), (slice(3, 3), 0, 0)], ids=repr
)
def test_a_rank_that_sends_a_part_of_a_chunk_queues_that_part(
    prefill: Rig, keep: slice, first_page: int, tokens: int
) -> None:
    _, sender = sending(prefill)
    prefill.send(sender, fake.pages(20, 21, 22), 10, keep=keep, where=slice(first_page, first_page + 1))
    chunk = prefill.only("transfer:queued")
    assert (chunk["chunk.page"], chunk["chunk.tokens"]) == (first_page, tokens)


def test_interleaved_pages_of_a_sharded_pool_are_a_gap(prefill: Rig) -> None:
    req, sender = sending(prefill)
    prefill.send(sender, fake.pages(20, 22), 8, where=fake.pages(0, 2))
    prefill.finish(req)
    assert "transfer:queued" not in prefill.story()
    assert not prefill.complete()
    assert hook_errors(prefill) == 1


class PinnedIds:
    """Page ids on their way from the GPU: not to be looked at before their event has passed."""

    def __init__(self, ids: Any, event: Event) -> None:
        self._ids, self._event = ids, event

    def numpy(self) -> Any:
        assert self._event.passed, "a hook read page ids that had not arrived"
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)


def test_page_ids_that_are_still_on_their_way_are_recorded_when_they_have_arrived(prefill: Rig) -> None:
    req, sender = sending(prefill)
    prefill.extend(req, 0, 10)
    event = Event()
    prefill.send(sender, PinnedIds(fake.pages(20, 21, 22), event), 10, indices_event=event)
    assert "transfer:queued" not in prefill.story()
    event.passed = True
    prefill.finish(req)
    assert prefill.story()[2:] == ["transfer:queued", "release:immediate", "response:length", "end:finished"]
    assert list(prefill.only("transfer:queued")["pages"]) == [20, 21, 22]
    assert prefill.complete()


def test_chunks_stay_in_their_order_while_they_wait(prefill: Rig) -> None:
    req, sender = sending(prefill)
    first = Event()
    prefill.send(sender, PinnedIds(fake.pages(20), first), 4, indices_event=first)
    prefill.send(sender, fake.pages(30), 4)
    first.passed = True
    prefill.finish(req)
    assert [list(chunk["pages"]) for chunk in prefill.every("transfer:queued")] == [[20], [30]]


def test_page_ids_that_never_arrive_make_the_leg_incomplete(prefill: Rig) -> None:
    req, sender = sending(prefill)
    prefill.extend(req, 0, 10)
    event = Event()
    prefill.send(sender, PinnedIds(fake.pages(20), event), 4, indices_event=event)
    prefill.release(req)
    prefill.stream_abort(req, "transfer failed", 500)
    assert "transfer:queued" not in prefill.story()
    assert not prefill.complete()
