"""Each method of the recorder leaves one fact that says what the contract promises, or counts why it did not."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_hooks.facts import Fact
from engine_hooks.recorder import Leg, Recorder
from engine_hooks.ring_reader import RingReader
from tests.engine_hooks.support import TENANT, a_leg, a_ring, facts_in, page_list

DIGEST = bytes(range(1, 17))
CONFIG: dict[str, Any] = {
    "node_id": DIGEST, "role": "decode", "rank": 1, "ranks": 2, "engine": "sglang", "engine_version": "0.5.19",
    "model": "m", "context_tokens": 4096, "pool_tokens": 2048, "input_limit": 2042, "page_size": 16,
    "kv_dtype": "bfloat16", "kv_layers": 2, "backend": "mooncake", "prefix_cache": False, "tier": "control",
    "hooks_attached": ["a", "b"], "hooks_missing": [],
}  # fmt: skip
MORE_CONFIG: dict[str, Any] = {
    "rank_names": ["host1/tp0", "host1/tp1"], "parallel": (2, 1, 1), "region": "eu-1", "model_revision": "main",
    "kv_layout": "MHATokenToKVPool heads=2", "components": ["kv"], "host_tokens": 0, "slots": 64, "safety": [],
}  # fmt: skip

Call = Callable[[Recorder, Leg], bool]
CALLS: dict[str, tuple[Call, dict[str, object]]] = {
    "admitted": (
        lambda r, leg: r.admission(
            leg, state="admitted", reason="none", need_tokens=5, input_limit=9, context_tokens=10, room=77, rid=DIGEST
        ),
        {"admission.state": "admitted", "admission.reason": "none", "tokens.need": 5, "input.limit": 9,
         "context.tokens": 10, "room": 77, "rid": DIGEST},
    ),
    "rejected": (
        lambda r, leg: r.admission(
            leg, state="rejected", reason="input_too_long", need_tokens=1500, input_limit=1018, context_tokens=4096,
            room=None, rid=DIGEST, status=400,
        ),
        {"admission.state": "rejected", "admission.reason": "input_too_long", "tokens.need": 1500,
         "input.limit": 1018, "context.tokens": 4096, "rid": DIGEST, "http.response.status_code": 400},
    ),
    "reserved": (
        lambda r, leg: r.transfer_reserved(
            leg, room=7, session="10.0.0.1:9", destination=DIGEST, pages=page_list(4, 5, 9), prefix_tokens=16,
            prompt_tokens=50, slot=0,
        ),
        {"transfer.side": "receive", "transfer.status": "reserved", "room": 7, "transfer.session": "10.0.0.1:9",
         "transfer.destination": DIGEST, "pages": page_list(4, 5, 9), "page.count": 3, "prefix.tokens": 16,
         "prompt.tokens": 50, "slot": 0},
    ),
    "destination": (
        lambda r, leg: r.transfer_destination(
            leg, room=7, session="s", destination=DIGEST, page_count=3, prefix_tokens=0
        ),
        {"transfer.side": "send", "transfer.status": "destination", "room": 7, "transfer.session": "s",
         "transfer.destination": DIGEST, "page.count": 3, "prefix.tokens": 0},
    ),
    "queued": (
        lambda r, leg: r.transfer_queued(leg, pages=page_list(8), chunk_page=2, chunk_tokens=1, sender_pages=3),
        {"transfer.side": "send", "transfer.status": "queued", "pages": page_list(8), "page.count": 1,
         "chunk.page": 2, "chunk.tokens": 1, "sender.pages": 3},
    ),
    "committed": (
        lambda r, leg: r.transfer_committed(leg, prompt_tokens=50),
        {"transfer.side": "receive", "transfer.status": "committed", "prompt.tokens": 50},
    ),
    "refused": (
        lambda r, leg: r.transfer_refused(leg),
        {"transfer.side": "receive", "transfer.status": "refused"},
    ),
    "read": (
        lambda r, leg: r.read(leg, phase="first", tokens=51, row=0, row_generation=3),
        {"read.phase": "first", "read.tokens": 51, "row": 0, "row_generation": 3},
    ),
    "read without a row": (
        lambda r, leg: r.read(leg, phase="last", tokens=60),
        {"read.phase": "last", "read.tokens": 60},
    ),
    "release": (
        lambda r, leg: r.release(
            leg, mode="deferred", pages=page_list(4, 5), complete=True, prefix_tokens=0, written_start=50,
            written_end=60,
        ),
        {"release.mode": "deferred", "pages": page_list(4, 5), "pages.complete": True, "prefix.tokens": 0,
         "written.start": 50, "written.end": 60},
    ),
    "response": (
        lambda r, leg: r.response(leg, finish="stop", input_tokens=50, output_tokens=10, delivered=10),
        {"finish": "stop", "gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 10,
         "tokens_delivered": 10},
    ),
    "aborted response": (
        lambda r, leg: r.response(leg, finish="abort", input_tokens=50, output_tokens=1, delivered=0, status=400),
        {"finish": "abort", "gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 1, "tokens_delivered": 0,
         "http.response.status_code": 400},
    ),
    "end": (
        lambda r, leg: r.end(leg, state="finished", queued_pages=3, queued_tokens=33, destination=DIGEST),
        {"end.state": "finished", "leg.facts": 1, "transfer.destination": DIGEST, "queued.pages": 3,
         "queued.tokens": 33},
    ),
    "admitted again, in a namespace": (
        lambda r, leg: r.admission(
            leg, state="admitted", reason="none", need_tokens=5, input_limit=9, context_tokens=10, room=77, rid=DIGEST,
            resumes=b"r" * 16, namespace=b"n" * 16,
        ),
        {"admission.state": "admitted", "admission.reason": "none", "tokens.need": 5, "input.limit": 9,
         "context.tokens": 10, "room": 77, "rid": DIGEST, "leg.resumes": b"r" * 16, "namespace": b"n" * 16},
    ),
    "release whose pages came later": (
        lambda r, leg: r.release(
            leg, mode="immediate", pages=page_list(4), complete=True, prefix_tokens=0, written_start=0,
            written_end=16, after_seq=12,
        ),
        {"release.mode": "immediate", "pages": page_list(4), "pages.complete": True, "prefix.tokens": 0,
         "written.start": 0, "written.end": 16, "after_seq": 12},
    ),
    "end with the totals of the exact tier": (
        lambda r, leg: r.end(
            leg, state="finished", queued_pages=0, queued_tokens=0, steps=0, acquired_pages=4
        ),
        {"end.state": "finished", "leg.facts": 1, "queued.pages": 0, "queued.tokens": 0, "steps": 0,
         "acquired.pages": 4},
    ),
    "end without a reservation": (
        lambda r, leg: r.end(leg, state="rejected", queued_pages=0, queued_tokens=0),
        {"end.state": "rejected", "leg.facts": 1, "queued.pages": 0, "queued.tokens": 0},
    ),
}  # fmt: skip


def one_fact(directory: Path, call: Call) -> Fact:
    ring = a_ring(directory)
    assert call(Recorder(ring), a_leg())
    (fact,) = facts_in(ring)
    return fact


def said_by(fact: Fact) -> dict[str, object]:
    """What a fact says, by names without the prefix that they share."""
    return {name.removeprefix("pagewitness."): value for name, value in fact.values.items()}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_records_what_it_was_given_and_nothing_else(name: str, tmp_path: Path) -> None:
    call, said = CALLS[name]

    fact = one_fact(tmp_path, call)

    assert said_by(fact) == said


@pytest.mark.parametrize("name", CALLS)
def test_a_call_records_all_that_its_variant_requires(name: str, tmp_path: Path) -> None:
    fact = one_fact(tmp_path, CALLS[name][0])

    assert fact.span.variant is not None
    variant = str(fact.values[fact.span.variant.name])
    assert {one.attribute.name for one in fact.span.fields if one.is_required(variant)} <= set(fact.values)


def test_a_node_config_records_every_attribute(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    assert Recorder(ring).node_config(**CONFIG, **MORE_CONFIG)

    (fact,) = facts_in(ring)

    assert fact.leg is None
    assert set(fact.values) == {one.attribute.name for one in fact.span.fields}
    assert fact.values["pagewitness.hooks.attached"] == ("a", "b")
    assert fact.values["pagewitness.rank.names"] == ("host1/tp0", "host1/tp1")
    assert [fact.values[f"pagewitness.parallel.{name}"] for name in ("tp", "pp", "dp")] == [2, 1, 1]
    assert fact.values["pagewitness.safety"] == ()  # none is on, which is not the same as not known


def test_a_node_config_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    ring = a_ring(tmp_path)
    assert Recorder(ring).node_config(**CONFIG)

    (fact,) = facts_in(ring)

    assert set(fact.values) == {one.attribute.name for one in fact.span.fields if one.required}


def fingerprint(directory: Path, **changed: object) -> object:
    ring = a_ring(directory)
    assert Recorder(ring).node_config(**{**CONFIG, **changed})
    return facts_in(ring)[0].values["pagewitness.config.fingerprint"]


def test_ranks_that_are_set_up_alike_have_one_fingerprint(tmp_path: Path) -> None:
    assert fingerprint(tmp_path) == fingerprint(tmp_path, rank=0, node_id=bytes(range(16, 32)))


@pytest.mark.parametrize("changed", [{"pool_tokens": 1024}, {"region": "eu-2"}, {"safety": ["room_check"]}], ids=str)
def test_another_setting_is_another_fingerprint(changed: dict[str, Any], tmp_path: Path) -> None:
    assert fingerprint(tmp_path) != fingerprint(tmp_path, **changed)


def test_the_names_of_the_ranks_are_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    assert fingerprint(tmp_path) == fingerprint(tmp_path, rank_names=["host1/tp0"])


def test_ordinals_of_a_leg_count_from_one_over_all_kinds(tmp_path: Path) -> None:
    ring, leg = a_ring(tmp_path), a_leg()
    recorder = Recorder(ring)
    recorder.read(leg, phase="first", tokens=1)
    recorder.read(a_leg(2), phase="first", tokens=1)
    recorder.end(leg, state="finished", queued_pages=0, queued_tokens=0)

    facts = facts_in(ring)

    assert [fact.leg.ordinal for fact in facts if fact.leg] == [1, 1, 2]
    assert facts[-1].values["pagewitness.leg.facts"] == leg.ordinal == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda r, leg: r.read(leg, phase="sideways", tokens=1),
        lambda r, leg: r.read(leg, phase="first", tokens="many"),
        lambda r, leg: r.read(leg, phase="first", tokens=1 << 64),
        lambda r, leg: r.transfer_committed(leg, prompt_tokens=None),
        lambda r, leg: r.transfer_queued(leg, pages=array("q", [1]), chunk_page=0, chunk_tokens=1, sender_pages=1),
        lambda r, leg: r.transfer_queued(leg, pages=[1], chunk_page=0, chunk_tokens=1, sender_pages=1),
        lambda r, leg: r.end(leg, state="finished", queued_pages=0, queued_tokens=0, destination=b"short"),
        lambda r, leg: r.transfer_destination(
            leg, room=1, session="\ud800", destination=DIGEST, page_count=1, prefix_tokens=0
        ),
        lambda r, leg: r.admission(
            leg, state="rejected", reason="other", need_tokens=1, input_limit=1, context_tokens=1, room=1, rid=DIGEST
        ),
    ],
)
def test_values_that_cannot_be_recorded_are_an_error_that_uses_up_an_ordinal(
    call: Callable[[Recorder, Leg], bool], tmp_path: Path
) -> None:
    ring, leg = a_ring(tmp_path), a_leg()
    recorder = Recorder(ring)

    assert call(recorder, leg) is False

    assert recorder.transfer_refused(leg)
    (fact,) = facts_in(ring)
    assert fact.leg is not None
    assert (fact.seq, fact.leg.ordinal) == (1, 2)
    reader = RingReader.open(ring.path)
    assert (reader.hook_errors, reader.drops) == (1, 0)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=20),
    st.lists(st.integers(), max_size=3),
)  # fmt: skip


@given(st.data())
def test_no_call_raises_whatever_it_is_given(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    recorder = Recorder(a_ring(tmp_path_factory.mktemp("ring")))
    leg: Any = data.draw(st.sampled_from([a_leg(), None, "leg"]))

    def arbitrary(*names: str) -> dict[str, Any]:
        return {name: data.draw(ANYTHING) for name in names}

    results = [
        recorder.admission(
            leg, **arbitrary("state", "reason", "need_tokens", "input_limit", "context_tokens", "room", "rid", "status")
        ),
        recorder.transfer_reserved(
            leg, **arbitrary("room", "session", "destination", "pages", "prefix_tokens", "prompt_tokens", "slot")
        ),
        recorder.transfer_queued(leg, **arbitrary("pages", "chunk_page", "chunk_tokens", "sender_pages")),
        recorder.read(leg, **arbitrary("phase", "tokens", "row", "row_generation")),
        recorder.end(leg, **arbitrary("state", "queued_pages", "queued_tokens", "destination")),
        recorder.node_config(**arbitrary(*CONFIG)),
    ]  # fmt: skip

    assert all(isinstance(result, bool) for result in results)


@pytest.mark.parametrize(
    ("uid", "tenant", "key", "traffic"),
    [
        (b"short", TENANT, "p1", "customer"),
        (bytes(16), TENANT, "p1", "customer"),
        (DIGEST, b"short", "p1", "customer"),
        (DIGEST, TENANT, "nine-long", "customer"),
        (DIGEST, TENANT, "p1", "visitor"),
    ],
)
def test_a_leg_of_another_shape_is_refused(uid: bytes, tenant: bytes, key: str, traffic: str) -> None:
    with pytest.raises(ValueError, match=r"leg|traffic"):
        Leg(uid, tenant, key, traffic)
