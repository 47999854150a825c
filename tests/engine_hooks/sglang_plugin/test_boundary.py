"""Nothing that a hook does reaches the engine."""

from __future__ import annotations

import inspect
import logging
from typing import Any

import pytest

from engine_hooks.ring_reader import RingReader
from engine_hooks.sglang_plugin.boundary import LOG_FIRST, SWITCH_OFF_AFTER, Boundary
from engine_hooks.sglang_plugin.legs import UNKNOWN
from engine_hooks.sglang_plugin.table import TABLE
from engine_hooks.sglang_plugin.targets import Target
from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake

MARKER = "the-client-wrote-this"


class Failing:
    """A hook that raises while `broken`."""

    def __init__(self) -> None:
        self.calls = 0
        self.broken = True

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.calls += 1
        if self.broken:
            raise RuntimeError(MARKER)


def a_boundary(errors: list[Any] | None = None, off: list[str] | None = None) -> Boundary:
    return Boundary((errors if errors is not None else []).append, (off if off is not None else []).append)


def test_an_exception_in_a_hook_stops_at_the_wall() -> None:
    assert a_boundary().guard("hook", Failing())(1, two=2) is None


def test_a_hook_cannot_change_arguments_or_results() -> None:
    def answering(*args: Any) -> Any:
        return (("other",), {})

    assert a_boundary().guard("hook", answering)("mine") is None


def test_what_ends_the_process_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        a_boundary().guard("hook", interrupted)()


def test_the_error_handler_gets_the_arguments_of_the_call_that_failed() -> None:
    errors: list[Any] = []
    a_boundary(errors).guard("hook", Failing())("request", batch="batch")
    assert errors == [("request", "batch")]


def test_an_error_handler_that_fails_is_swallowed_too() -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError

    assert Boundary(fail, fail).guard("hook", Failing())() is None


def test_the_log_names_the_hook_and_the_type_and_never_the_message(caplog: pytest.LogCaptureFixture) -> None:
    hook = a_boundary().guard("Scheduler.run_batch:after", Failing())
    with caplog.at_level(logging.DEBUG):
        for _ in range(LOG_FIRST + 5):
            hook(MARKER)
    assert len(caplog.records) == LOG_FIRST
    assert "Scheduler.run_batch:after" in caplog.text
    assert "RuntimeError" in caplog.text
    assert MARKER not in caplog.text


def test_a_hook_that_keeps_failing_is_switched_off() -> None:
    off: list[str] = []
    failing = Failing()
    boundary = a_boundary(off=off)
    hook = boundary.guard("hook", failing)
    for _ in range(SWITCH_OFF_AFTER + 10):
        hook()
    assert failing.calls == SWITCH_OFF_AFTER
    assert off == ["hook"]
    assert boundary.switched_off == {"hook"}


def test_a_success_in_between_starts_the_count_anew() -> None:
    failing = Failing()
    hook = a_boundary().guard("hook", failing)
    for _ in range(3):
        for _ in range(SWITCH_OFF_AFTER - 1):
            hook()
        failing.broken = False
        hook()
        failing.broken = True
    assert failing.calls == 3 * SWITCH_OFF_AFTER


class Hostile:
    """An engine object of which every use fails, with client text in the error."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(MARKER)

    def __iter__(self) -> Any:
        raise RuntimeError(MARKER)


def hostile_call(hook: Any) -> tuple[list[Any], dict[str, Any]]:
    """As many hostile objects as the hook asks for."""
    wanted = [
        parameter for parameter in inspect.signature(hook).parameters.values() if parameter.default is parameter.empty
    ]
    names = [parameter.name for parameter in wanted if parameter.kind is parameter.KEYWORD_ONLY]
    places = [parameter for parameter in wanted if parameter.kind is not parameter.KEYWORD_ONLY]
    places = [parameter for parameter in places if parameter.kind is not parameter.VAR_KEYWORD]
    return [Hostile() for _ in places], {name: Hostile() for name in names}


NOTHING_TO_LOOK_AT = ("evict", "write_through", "add_request", "send_output")  # they go by what was noted down before
LOOKS_AT_SOMETHING = [target for target in TABLE if not target.handler.endswith(NOTHING_TO_LOOK_AT)]


@pytest.mark.parametrize("target", LOOKS_AT_SOMETHING, ids=lambda target: f"{target.path}:{target.when}")
def test_no_hook_of_the_table_lets_an_exception_out(
    target: Target, decode: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Each hook is called with objects that fail at the first touch: the failure is counted, and that is all."""
    part, _, method = target.handler.partition(".")
    hook = getattr(decode.parts.handlers[part], method)
    if part == "node":  # it makes the recorder itself
        decode.legs.recorder = None
    arguments, keywords = hostile_call(hook)
    assert decode.parts.boundary.guard(target.name, hook)(*arguments, **keywords) is None
    assert "RuntimeError" in caplog.text, "the hook never touched what it was given"
    assert MARKER not in caplog.text
    if decode.legs.recorder is not None:
        reader = RingReader.open(decode.ring.path)
        assert reader.hook_errors == 1
        reader.close()


def test_a_failing_hook_makes_the_legs_of_its_call_incomplete_and_no_others(decode: Rig) -> None:
    struck, other = fake.Req("struck"), fake.Req("other")
    decode.admit(struck)
    decode.admit(other)
    decode.parts.boundary.guard("hook", Failing())(None, None, fake.decode_batch((struck, 11)))
    for req in (struck, other):
        decode.stream_abort(req)
    ordinals: dict[bytes, list[int]] = {}
    for fact in decode.facts:
        if fact.leg:
            ordinals.setdefault(fact.leg.uid, []).append(fact.leg.ordinal)
    assert sorted(ordinals.values()) == [[1, 2, 3], [1, 3, 4]]


def test_a_receiver_or_sender_stands_for_its_leg_when_a_hook_fails(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    receiver = decode.reserve(req, 10, 11, 12)
    decode.parts.boundary.guard("hook", Failing())(receiver, [1])
    decode.commit(req)
    decode.step(req)
    decode.finish(req)
    assert not decode.complete()


def test_totals_that_a_failed_hook_left_too_low_are_not_given_as_totals(prefill: Rig) -> None:
    """Else a transfer of which a hook missed a chunk would look short, and its reader struck."""
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 8)
    sender = prefill.bootstrap(req, fake.transfer_info(fake.pages(1, 2, 3)))
    prefill.send(sender, fake.pages(20, 21), 8)
    prefill.parts.boundary.guard("hook", Failing())(None, sender, fake.pages(22))
    prefill.extend(req, 8, 10)
    prefill.finish(req)
    end, release = prefill.only("end:finished"), prefill.only("release:immediate")
    assert (end["queued.pages"], end["queued.tokens"]) == (UNKNOWN, UNKNOWN)
    assert not release["pages.complete"]
    assert release["written.end"] == 10


def test_what_a_forward_wrote_unseen_is_not_taken_for_unwritten(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 4)
    batch = fake.extend_batch((req, 4, 10))
    prefill.parts.boundary.guard("hook", Failing())(None, prefill.scheduler, batch)
    req.kv = fake.Kv(1, 10, 10)
    prefill.finish(req)
    assert prefill.only("release:immediate")["written.end"] == 10
