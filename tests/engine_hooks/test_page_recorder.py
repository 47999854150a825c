"""Each method for the life of pages leaves one fact that says what the contract promises, or counts why it did not."""

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
from tests.engine_hooks.support import a_leg, a_ring, facts_in, page_list
from tests.engine_hooks.test_recorder import ANYTHING, DIGEST, Call, one_fact, said_by

CALLS: dict[str, tuple[Call, dict[str, object]]] = {
    "acquire": (
        lambda r, leg: r.acquire(leg, purpose="transfer", pages=page_list(4, 5), acquired_from=0),
        {"purpose": "transfer", "pages": page_list(4, 5), "acquired.from": 0},
    ),
    "acquire with everything": (
        lambda r, leg: r.acquire(
            leg, purpose="decode", pages=page_list(9), acquired_from=48, generations=page_list(3), component="index_k",
            row=2, row_generation=5, after_seq=11,
        ),
        {"purpose": "decode", "pages": page_list(9), "acquired.from": 48, "page.generation": page_list(3),
         "component": "index_k", "row": 2, "row_generation": 5, "after_seq": 11},
    ),
    "write": (
        lambda r, leg: r.write(leg, purpose="prefill", start=0, end=160),
        {"purpose": "prefill", "written.start": 0, "written.end": 160},
    ),
    "write of another component elsewhere": (
        lambda r, leg: r.write(leg, purpose="load", start=16, end=32, component="state", storage="host"),
        {"purpose": "load", "written.start": 16, "written.end": 32, "component": "state", "storage": "host"},
    ),
    "share": (
        lambda r, leg: r.share(leg, operation="match", tokens=32, key_composition=b"tokens\nextra_key"),
        {"share.operation": "match", "shared.tokens": 32, "storage": "device",
         "key.composition": ("tokens", "extra_key")},
    ),
    "share with everything": (
        lambda r, leg: r.share(
            leg, operation="store", tokens=32, key_composition=b"", storage="external", namespace=DIGEST,
            pages=page_list(7, 8), component="swa", after_seq=3,
        ),
        {"share.operation": "store", "shared.tokens": 32, "storage": "external", "key.composition": (),
         "namespace": DIGEST, "pages": page_list(7, 8), "component": "swa", "after_seq": 3},
    ),
    "slot use": (
        lambda r, leg: r.slot_use(leg, operation="read", slot=6, room=77, slot_room=78),
        {"slot.operation": "read", "slot": 6, "room": 77, "slot.room": 78},
    ),
    "slot that names no room": (
        lambda r, leg: r.slot_use(leg, operation="write", slot=0, room=None, slot_room=0),
        {"slot.operation": "write", "slot": 0},
    ),
    "alarm": (
        lambda r, leg: r.alarm(leg, alarm="kv_checksum", action="aborted", reason="checksum"),
        {"alarm": "kv_checksum", "alarm.action": "aborted", "alarm.reason": "checksum"},
    ),
    "alarm with everything": (
        lambda r, leg: r.alarm(
            leg, alarm="kv_canary", action="logged", reason="position", row=0, position=17, slot=4, pages=page_list(2)
        ),
        {"alarm": "kv_canary", "alarm.action": "logged", "alarm.reason": "position", "row": 0, "token.position": 17,
         "slot": 4, "pages": page_list(2)},
    ),
}  # fmt: skip

OF_NO_LEG: dict[str, tuple[Callable[[Recorder], bool], dict[str, object]]] = {
    "step": (
        lambda r: r.step(
            mode="decode", rows=page_list(3, 0), row_generations=page_list(8, 1), starts=page_list(40, 7),
            ends=page_list(41, 8),
        ),
        {"step.mode": "decode", "step.rows": page_list(3, 0), "step.row_generations": page_list(8, 1),
         "step.starts": page_list(40, 7), "step.ends": page_list(41, 8)},
    ),
    "step of an engine that does not count rows": (
        lambda r: r.step(
            mode="extend", rows=page_list(3), row_generations=page_list(), starts=page_list(0), ends=page_list(64)
        ),
        {"step.mode": "extend", "step.rows": page_list(3), "step.row_generations": page_list(),
         "step.starts": page_list(0), "step.ends": page_list(64)},
    ),
    "free": (
        lambda r: r.free(cause="release", pages=page_list(4, 5)),
        {"free.cause": "release", "pages": page_list(4, 5)},
    ),
    "free with everything": (
        lambda r: r.free(
            cause="evict", pages=page_list(4, 5), generations=page_list(1, 2), component="draft", after_seq=9
        ),
        {"free.cause": "evict", "pages": page_list(4, 5), "page.generation": page_list(1, 2), "component": "draft",
         "after_seq": 9},
    ),
    "alarm that names nobody": (
        lambda r: r.alarm(None, alarm="kv_canary", action="raised", reason="chain", row=3),
        {"alarm": "kv_canary", "alarm.action": "raised", "alarm.reason": "chain", "row": 3},
    ),
}  # fmt: skip


def one_fact_of_no_leg(directory: Path, call: Callable[[Recorder], bool]) -> Fact:
    ring = a_ring(directory)
    assert call(Recorder(ring))
    (fact,) = facts_in(ring)
    return fact


@pytest.mark.parametrize("name", CALLS)
def test_a_call_records_what_it_was_given_and_nothing_else(name: str, tmp_path: Path) -> None:
    call, said = CALLS[name]

    fact = one_fact(tmp_path, call)

    assert said_by(fact) == said
    assert fact.leg is not None
    assert (fact.leg.uid, fact.leg.ordinal) == (a_leg().uid, 1)


@pytest.mark.parametrize("name", OF_NO_LEG)
def test_a_call_about_no_leg_records_what_it_was_given_and_no_leg(name: str, tmp_path: Path) -> None:
    call, said = OF_NO_LEG[name]

    fact = one_fact_of_no_leg(tmp_path, call)

    assert said_by(fact) == said
    assert fact.leg is None


def test_every_attribute_of_these_spans_is_in_a_call_above(tmp_path: Path) -> None:
    facts = [one_fact(tmp_path / str(place), call) for place, (call, _) in enumerate(CALLS.values())]
    facts += [one_fact_of_no_leg(tmp_path / name, call) for name, (call, _) in OF_NO_LEG.items()]

    for span in {fact.span.code: fact.span for fact in facts}.values():
        said = {name for fact in facts if fact.span is span for name in fact.values}
        assert said == {field.attribute.name for field in span.fields}


@pytest.mark.parametrize(
    "call",
    [
        lambda r, leg: r.acquire(leg, purpose="fun", pages=page_list(1), acquired_from=0),
        lambda r, leg: r.acquire(leg, purpose="decode", pages=array("q", [1]), acquired_from=0),
        lambda r, leg: r.acquire(leg, purpose="load", pages=page_list(1), acquired_from=0, generations=page_list()),
        lambda r, leg: r.acquire(leg, purpose="load", pages=page_list(1), acquired_from=0, generations=array("q", [1])),
        lambda r, leg: r.write(leg, purpose="prefill", start=0, end=1, storage="tape"),
        lambda r, leg: r.share(leg, operation="match", tokens=1, key_composition="tokens"),
        lambda r, leg: r.share(leg, operation="match", tokens=1, key_composition=b"", namespace=b"short"),
        lambda r, leg: r.slot_use(leg, operation="read", slot=None, room=1, slot_room=1),
        lambda r, leg: r.alarm(leg, alarm="kv_canary", action="logged", reason="the message of the engine"),
        lambda r, leg: r.step(
            mode="decode", rows=page_list(1, 2), row_generations=page_list(), starts=page_list(1), ends=page_list(2)
        ),
        lambda r, leg: r.step(
            mode="decode", rows=page_list(1), row_generations=page_list(1, 2), starts=page_list(1), ends=page_list(2)
        ),
        lambda r, leg: r.free(cause="release", pages=page_list(1, 2), generations=page_list(1)),
        lambda r, leg: r.free(cause="theft", pages=page_list(1)),
    ],
)  # fmt: skip
def test_values_that_cannot_be_recorded_are_an_error_and_no_fact(
    call: Callable[[Recorder, Leg], bool], tmp_path: Path
) -> None:
    ring = a_ring(tmp_path)

    assert call(Recorder(ring), a_leg()) is False

    assert facts_in(ring) == []
    reader = RingReader.open(ring.path)
    assert (reader.hook_errors, reader.drops) == (1, 0)


def test_a_fact_that_could_not_be_recorded_uses_up_an_ordinal(tmp_path: Path) -> None:
    ring, leg = a_ring(tmp_path), a_leg()
    recorder = Recorder(ring)
    recorder.acquire(leg, purpose="decode", pages=page_list(1), acquired_from=0, generations=page_list(1, 2))

    recorder.write(leg, purpose="prefill", start=0, end=1)

    (fact,) = facts_in(ring)
    assert fact.leg is not None
    assert (fact.seq, fact.leg.ordinal) == (1, 2)


@given(st.data())
def test_no_call_raises_whatever_it_is_given(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    recorder = Recorder(a_ring(tmp_path_factory.mktemp("ring")))
    leg: Any = data.draw(st.sampled_from([a_leg(), None, "leg"]))

    def arbitrary(*names: str) -> dict[str, Any]:
        return {name: data.draw(ANYTHING) for name in names}

    results = [
        recorder.acquire(leg, **arbitrary("purpose", "pages", "acquired_from", "generations", "row", "after_seq")),
        recorder.write(leg, **arbitrary("purpose", "start", "end", "component", "storage")),
        recorder.share(leg, **arbitrary("operation", "tokens", "key_composition", "namespace", "pages")),
        recorder.slot_use(leg, **arbitrary("operation", "slot", "room", "slot_room")),
        recorder.step(**arbitrary("mode", "rows", "row_generations", "starts", "ends")),
        recorder.free(**arbitrary("cause", "pages", "generations", "after_seq")),
        recorder.alarm(leg, **arbitrary("alarm", "action", "reason", "row", "position", "slot", "pages")),
    ]

    assert all(isinstance(result, bool) for result in results)
