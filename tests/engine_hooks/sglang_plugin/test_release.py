"""Every page that a leg held, and what its own forwards wrote of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig, word_of
from tests.support import fake_sglang as fake


def part(rig: Rig) -> Any:
    return rig.parts.handlers["release"]


def committed(rig: Rig, tokens: int = 10) -> fake.Req:
    req = rig.admit(fake.Req(origin_input_ids=[7] * tokens))
    rig.reserve(req, 10, 11, 12)
    rig.commit(req)
    return req


def test_every_page_once_in_token_order(decode: Rig) -> None:
    req = committed(decode)
    req.kv = fake.Kv(2, 13, 10)
    decode.cache.move(2, 1, [5])
    decode.finish(req)
    fact = decode.only("release:immediate")
    assert list(fact["pages"]) == [20, 5, 22, 23]
    assert fact["pages.complete"] is True


def test_a_page_that_holds_one_token_is_held(decode: Rig) -> None:
    req = committed(decode)
    req.kv = fake.Kv(2, 9, 9)
    decode.finish(req)
    assert list(decode.only("release:immediate")["pages"]) == [20, 21, 22]


def test_decode_wrote_from_the_end_of_the_prompt(decode: Rig) -> None:
    req = committed(decode)
    decode.step(req)
    decode.step(req)
    decode.finish(req)
    fact = decode.only("release:immediate")
    assert (fact["written.start"], fact["written.end"]) == (10, 12)


def test_a_decode_leg_that_never_stepped_wrote_nothing_of_what_it_held(decode: Rig) -> None:
    """What it held was allocated, and maybe transferred: the engine counts as committed what it allocates."""
    req = decode.admit(fake.Req(origin_input_ids=[7] * 10))
    decode.reserve(req, 10, 11, 12)
    req.kv.kv_committed_len = req.kv.kv_allocated_len = 11
    decode.stream_abort(req, "Decode transfer failed", 500)
    decode.release(req)
    fact = decode.only("release:immediate")
    assert fact["written.start"] == fact["written.end"] == 10


def test_prefill_wrote_what_its_forwards_computed(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    prefill.extend(req, 4, 10)
    prefill.finish(req)
    fact = prefill.only("release:immediate")
    assert (fact["prefix.tokens"], fact["written.start"], fact["written.end"]) == (4, 4, 10)


def test_the_prefix_is_that_of_the_first_chunk(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    for start, end in [(4, 6), (6, 9), (9, 10)]:
        prefill.extend(req, start, end)
    prefill.finish(req)
    fact = prefill.only("release:immediate")
    assert (fact["prefix.tokens"], fact["written.start"], fact["written.end"]) == (4, 4, 10)


def test_a_prefill_leg_that_was_never_computed_wrote_nothing(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    req.kv = fake.Kv(1, 10, 10)
    prefill.release(req)
    prefill.stream_abort(req)
    fact = prefill.only("release:immediate")
    assert fact["written.start"] == fact["written.end"] == 0


def test_a_unified_node_wrote_prompt_and_answer(prefill: Rig) -> None:
    prefill.legs.limits.role = "unified"
    req = prefill.admit(fake.Req())
    prefill.extend(req, 4, 10)
    prefill.step(req)
    prefill.finish(req)
    fact = prefill.only("release:immediate")
    assert (fact["written.start"], fact["written.end"]) == (4, 11)


def test_pages_on_a_device_are_recorded_when_their_copy_has_arrived(decode: Rig) -> None:
    device = decode.on_device()
    req = committed(decode)
    decode.finish(req)
    assert decode.story()[-1] == "response:length"  # neither the release nor the end: the ids are under way
    device.arrived = True
    decode.stream()
    fact = decode.only("release:immediate")
    assert (fact["pages.complete"], list(fact["pages"])) == (True, [10, 11, 12])
    assert decode.story()[-2:] == ["release:immediate", "end:finished"]
    assert decode.complete()


def test_a_late_release_says_after_which_fact_it_was(decode: Rig) -> None:
    device = decode.on_device()
    req = committed(decode)
    decode.finish(req)
    decode.admit(fake.Req("other"))
    device.arrived = True
    decode.stream()
    after = decode.only("release:immediate")["after_seq"]
    (before,) = [fact for fact in decode.facts if fact.seq == after]
    assert word_of(before) == "transfer:committed"


def test_pages_that_never_arrive_make_the_list_short_and_say_so(decode: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    decode.on_device()
    monkeypatch.setattr("engine_hooks.sglang_plugin.copies.MOST_BYTES", 0)
    req = committed(decode)
    decode.finish(req)
    fact = decode.only("release:immediate")
    assert fact["pages.complete"] is False
    assert list(fact["pages"]) == [10, 11, 12]  # what the reservation had on the CPU anyway


def test_a_copy_that_cannot_begin_does_not_hold_the_leg_open(decode: Rig) -> None:
    decode.on_device(fails=True)
    req = committed(decode)
    with pytest.raises(RuntimeError):
        decode.finish(req)
    decode.stream(req)
    assert decode.story()[-1] == "end:finished"
    assert decode.only("release:immediate")["pages.complete"] is False


def test_a_request_without_pages_releases_nothing(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    part(decode).before_release(req, decode.cache)
    assert decode.story() == ["admission:admitted"]


def test_a_release_that_the_engine_repeats_is_recorded_once(decode: Rig) -> None:
    req = committed(decode)
    part(decode).before_release(req, decode.cache)
    part(decode).before_release(req, decode.cache)
    assert decode.story().count("release:immediate") == 1


# ---------------------------------------------------------------------- a prefix cache takes pages over


def publishing(rig: Rig, *, computed: int = 10) -> fake.Req:
    rig.cache = fake.Cache(shares=True)
    req = rig.admit(fake.Req())
    rig.extend(req, 0, computed)
    part(rig).before_publish(req, rig.cache)
    return req


def test_pages_that_the_cache_replaced_are_named_before_they_are_forgotten(prefill: Rig) -> None:
    req = publishing(prefill)
    prefill.cache.move(1, 0, [40, 41])  # the cache had the first two pages from another request
    part(prefill).after_publish(None, req, prefill.cache)
    prefill.finish(req)
    own, last = prefill.only("release:evict"), prefill.only("release:immediate")
    assert list(own["pages"]) == [10, 11]
    assert (own["prefix.tokens"], own["written.start"], own["written.end"]) == (0, 0, 10)
    assert list(last["pages"]) == [40, 41, 12]


def test_the_leg_does_not_claim_to_have_written_the_pages_it_was_given(prefill: Rig) -> None:
    req = publishing(prefill)
    prefill.cache.move(1, 0, [40, 41])
    part(prefill).after_publish(None, req, prefill.cache)
    prefill.finish(req)
    last = prefill.only("release:immediate")
    assert (last["prefix.tokens"], last["written.start"], last["written.end"]) == (8, 8, 10)


def test_publishing_that_replaces_nothing_says_nothing(prefill: Rig) -> None:
    req = publishing(prefill)
    part(prefill).after_publish(None, req, prefill.cache)
    assert prefill.story() == ["admission:admitted"]


def test_without_a_prefix_cache_nothing_is_compared(decode: Rig) -> None:
    req = committed(decode)
    part(decode).before_publish(req, decode.cache)
    decode.cache.move(1, 0, [40])
    part(decode).after_publish(None, req, decode.cache)
    assert "release:immediate" not in decode.story()


def test_pages_that_a_cache_on_a_device_replaced_are_named_too(prefill: Rig) -> None:
    device = prefill.on_device(shares=True)
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 10)
    part(prefill).before_publish(req, prefill.cache)
    prefill.cache.move(1, 0, [40, 41])
    part(prefill).after_publish(None, req, prefill.cache)
    prefill.finish(req)
    device.arrived = True
    prefill.stream()
    own, last = prefill.only("release:evict"), prefill.only("release:immediate")
    assert (list(own["pages"]), list(last["pages"])) == ([10, 11], [40, 41, 12])
    assert (last["prefix.tokens"], last["written.start"]) == (8, 8)
    assert prefill.complete()
