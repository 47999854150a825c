"""Engine versions before 0.5.19, whose functions are cut differently: the facts are the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig, word_of
from tests.support import fake_sglang as fake


def bootstrapped(prefill: Rig, **given: Any) -> fake.Req:
    """A request of 10 tokens, of whose destination this prefill node has heard."""
    req = prefill.admit(fake.Req(**given))
    req.disagg_kv_sender = fake.Sender(prefill.manager, req.bootstrap_room, num_kv_indices=3)
    prefill.manager.request_status[req.bootstrap_room] = 2
    prefill.manager.transfer_infos[req.bootstrap_room] = {"peer": fake.transfer_info(fake.pages(4, 5, 6))}
    prefill.older.after_pop_bootstrapped([req], None)
    return req


def send(prefill: Rig, req: Any, ids: Any, *, last: bool, computed: int, end: int | None = None) -> None:
    """`send_kv_chunk` as 0.5.11 does it: the sender cuts the chunk, its manager queues it."""
    req.fill_ids = [7] * computed
    prefill.older.before_send_chunk(prefill.scheduler, req, last, end)
    sender = req.disagg_kv_sender
    prefill.older.before_send(sender, ids, None)
    where = slice(sender.curr_idx, sender.curr_idx + len(ids))
    sender.curr_idx += len(ids)
    prefill.older.before_add_request(prefill.manager, req.bootstrap_room, ids, where, last)


def queued(prefill: Rig) -> list[tuple[Any, Any]]:
    """Pages and tokens of each chunk."""
    facts = [fact for fact in prefill.facts if word_of(fact) == "transfer:queued"]
    return [(fact.values["pagewitness.page.count"], fact.values["pagewitness.chunk.tokens"]) for fact in facts]


@pytest.mark.parametrize("answer", [lambda reqs: reqs, lambda reqs: (reqs, [])], ids=["one list", "two with pipelines"])
def test_the_destination_is_known_when_the_queue_gives_the_request_away(prefill: Rig, answer: Any) -> None:
    req = prefill.admit(fake.Req())
    req.disagg_kv_sender = fake.Sender(prefill.manager, req.bootstrap_room)
    prefill.manager.transfer_infos[req.bootstrap_room] = {"peer": fake.transfer_info(fake.pages(4, 5, 6))}
    prefill.older.after_pop_bootstrapped(answer([req]), None)
    assert "transfer:destination" in prefill.story()


def test_a_decode_node_without_prefixes_says_no_prefix(prefill: Rig) -> None:
    """0.5.11 has no field for it."""
    req = prefill.admit(fake.Req())
    req.disagg_kv_sender = fake.Sender(prefill.manager, req.bootstrap_room)
    info = SimpleNamespace(dst_kv_indices=fake.pages(4), is_dummy=False, dst_aux_index=3)
    prefill.manager.transfer_infos[req.bootstrap_room] = {"peer": info}
    prefill.older.after_pop_bootstrapped([req], None)
    (fact,) = [fact for fact in prefill.facts if word_of(fact) == "transfer:destination"]
    assert fact.values["pagewitness.prefix.tokens"] == 0


def test_the_last_chunk_holds_all_that_is_left_of_the_prompt(prefill: Rig) -> None:
    req = bootstrapped(prefill)
    req.start_send_idx = 0  # type: ignore[attr-defined]
    send(prefill, req, fake.pages(4, 5, 6), last=True, computed=10)
    assert queued(prefill) == [(3, 10)]


def test_a_chunk_that_is_not_the_last_leaves_a_page_that_is_not_full(prefill: Rig) -> None:
    req = bootstrapped(prefill)
    req.start_send_idx = 0  # type: ignore[attr-defined]
    send(prefill, req, fake.pages(4), last=False, computed=7)
    req.start_send_idx = 4  # type: ignore[attr-defined]
    send(prefill, req, fake.pages(5, 6), last=True, computed=10)
    assert queued(prefill) == [(1, 4), (2, 6)]


@pytest.mark.parametrize(
    "computed", [{"fill_ids": [7] * 10}, {"fill_len": 10}, {"extend_range": SimpleNamespace(start=0, end=10)}]
)
def test_what_is_computed_has_three_names(prefill: Rig, computed: dict[str, Any]) -> None:
    req = bootstrapped(prefill)
    for name, value in {"start_send_idx": 0, **computed}.items():
        setattr(req, name, value)
    prefill.older.before_send_chunk(prefill.scheduler, req, True)
    sender = req.disagg_kv_sender
    prefill.older.before_send(sender, fake.pages(4, 5, 6))
    sender.curr_idx = 3
    prefill.older.before_add_request(prefill.manager, req.bootstrap_room, fake.pages(4, 5, 6), slice(0, 3), True)
    assert queued(prefill) == [(3, 10)]


def test_a_rank_that_sends_a_part_of_a_chunk_records_that_part(prefill: Rig) -> None:
    req = bootstrapped(prefill)
    req.start_send_idx, req.fill_ids = 0, [7] * 10  # type: ignore[attr-defined]
    prefill.older.before_send_chunk(prefill.scheduler, req, True)
    sender = req.disagg_kv_sender
    prefill.older.before_send(sender, fake.pages(4, 5, 6))
    sender.curr_idx = 3
    prefill.older.before_add_request(prefill.manager, req.bootstrap_room, fake.pages(5), slice(1, 2), True)
    assert queued(prefill) == [(1, 4)]


def test_a_chunk_of_another_room_is_not_the_senders(prefill: Rig) -> None:
    req = bootstrapped(prefill)
    prefill.older.before_send(req.disagg_kv_sender, fake.pages(4))
    prefill.older.before_add_request(prefill.manager, 999, fake.pages(4), slice(0, 1))
    assert queued(prefill) == []


def test_a_transfer_that_is_asked_again_is_neither_committed_nor_refused(decode: Rig) -> None:
    """Until 0.5.12 the queue answers False when the metadata is not there yet."""
    req = decode.admit(fake.Req())
    decode.reserve(req, 4, 5, 6)
    asked = SimpleNamespace(req=req, metadata_buffer_index=req.metadata_buffer_index)
    queue = SimpleNamespace(metadata_buffers=decode.buffers)
    decode.transfer.before_commit(queue, asked)
    decode.transfer.after_commit(False, queue, asked)
    assert "transfer:refused" not in decode.story()
    decode.commit(req)
    assert "transfer:committed" in decode.story()


def test_a_retracted_request_is_found_by_its_place_in_the_batch(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.reserve(req, 1, 2, 3)
    decode.older.before_retract_at(SimpleNamespace(reqs=[fake.Req(rid="other"), req]), 1, 0, None)
    decode.release(req)
    assert "release:retract" in decode.story()


class AbortReq:
    """The engine's own name, by which the hook goes."""

    def __init__(self, finished_reason: Any = None) -> None:
        self.finished_reason = finished_reason


def test_an_abort_message_ends_the_leg_of_its_request(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.older.before_send_output(None, AbortReq({"status_code": 503, "message": "The request queue is full."}), req)
    assert decode.story()[-2:] == ["response:abort", "end:failed"]


def test_other_messages_and_those_about_no_request_end_nothing(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.older.before_send_output(None, SimpleNamespace(finished_reason={}), req)
    decode.older.before_send_output(None, AbortReq(), None)
    assert decode.story() == ["admission:admitted"]
