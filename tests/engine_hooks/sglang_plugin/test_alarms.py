"""The engine's own alarms, as facts with the request and the tenant that they are about.

None of them can be provoked on a CPU engine: the shapes are those of the engine's source (`VIOLATION_FIELDS` and
`FailReason` in its `kv_canary.consts`), and `test_guards_on_engine` drives the engine's own reporter.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake

HEAD_K_FULL, HEAD_K_SWA = 0, 6
CHAIN, POSITION, REAL, WRITE_TOKEN, WRITE_POSITION, TOKEN = (1 << bit for bit in range(6))
STORED_TOKEN, EXPECTED_TOKEN = 111_222, 333_444


def running(rig: Rig, *reqs: fake.Req) -> None:
    pool = SimpleNamespace(
        req_to_token=fake.Tensor(rig.cache.table, rig.cache.req_to_token_pool.req_to_token.device.type)
    )
    scheduler = fake.Scheduler(running_batch=SimpleNamespace(reqs=list(reqs)), req_to_token_pool=pool)
    rig.scheduler = scheduler  # the hooks refer to it weakly
    rig.alarms.watch(scheduler)


def decoding(rig: Rig, rid: str, row: int) -> fake.Req:
    req = rig.admit(fake.Req(rid))
    req.kv = fake.Kv(row, 12, 12)
    return req


def violation(rig: Rig, *, slot: int, position: int, bits: int = CHAIN, kind: int = HEAD_K_FULL) -> None:
    row = [kind, slot, position, STORED_TOKEN, EXPECTED_TOKEN, 5, 6, bits]
    rig.alarms.before_violation(row=row, total=1, ring_overflow=False, step_when_pumped=9)


def slot_of(row: int, position: int) -> int:
    return 10 * row * fake.PAGE + position


def test_a_violation_names_the_request_whose_row_has_the_slot(decode: Rig) -> None:
    one, other = decoding(decode, "one", 1), decoding(decode, "other", 2)
    running(decode, one, other)
    violation(decode, slot=slot_of(2, 5), position=5)
    alarm = decode.only("alarm:kv_canary")
    assert (alarm["row"], alarm["token.position"], list(alarm["pages"])) == (2, 5, [21])
    assert (alarm["alarm.action"], alarm["alarm.reason"]) == ("logged", "chain")
    assert [word for word in decode.story(other) if word.startswith("alarm")] == ["alarm:kv_canary"]
    assert [word for word in decode.story(one) if word.startswith("alarm")] == []


def test_a_slot_that_several_requests_share_is_an_alarm_for_each(decode: Rig) -> None:
    one, other = decoding(decode, "one", 1), decoding(decode, "other", 2)
    decode.cache.move(2, 0, [10])
    running(decode, one, other)
    violation(decode, slot=slot_of(1, 3), position=3)
    assert [alarm["row"] for alarm in decode.every("alarm:kv_canary")] == [1, 2]


@pytest.mark.parametrize("slot", [slot_of(5, 5), slot_of(1, 6)], ids=["row of nobody", "other position"])
def test_a_slot_that_nobody_holds_at_this_position_is_an_alarm_without_a_leg(decode: Rig, slot: int) -> None:
    running(decode, decoding(decode, "one", 1))
    violation(decode, slot=slot, position=5)
    (alarm,) = [fact for fact in decode.facts if fact.span.name == "pagewitness.alarm"]
    assert alarm.leg is None
    assert alarm.values["pagewitness.token.position"] == 5


def test_a_position_beyond_the_table_is_an_alarm_without_a_leg(decode: Rig) -> None:
    running(decode, decoding(decode, "one", 1))
    violation(decode, slot=slot_of(1, 5), position=10_000)
    assert decode.only("alarm:kv_canary")["token.position"] == 10_000


def test_slots_of_the_sliding_window_pool_are_not_taken_for_those_of_the_table(decode: Rig) -> None:
    running(decode, decoding(decode, "one", 1))
    violation(decode, slot=slot_of(1, 5), position=5, kind=HEAD_K_SWA)
    alarm = decode.only("alarm:kv_canary")
    assert not {"row", "pages"} & set(alarm)


@pytest.mark.parametrize(
    ("bits", "reason"),
    [
        (CHAIN, "chain"), (POSITION, "position"), (REAL, "checksum"), (WRITE_TOKEN, "token"), (TOKEN, "token"),
        (WRITE_POSITION, "position"), (REAL | CHAIN, "checksum"), (1 << 9, "other"),
    ],
)  # fmt: skip
def test_reasons(decode: Rig, bits: int, reason: str) -> None:
    violation(decode, slot=4, position=0, bits=bits)
    assert decode.only("alarm:kv_canary")["alarm.reason"] == reason


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_in_the_mode_that_raises_the_alarm_is_out_before_the_engine_ends(decode: Rig, device: str) -> None:
    """Nobody would be left to look at a copy from a device."""
    decode.legs.limits.canary = "raise"
    if device == "cuda":
        decode.on_device()
    running(decode, decoding(decode, "one", 1))
    violation(decode, slot=slot_of(1, 5), position=5)
    alarm = decode.only("alarm:kv_canary")
    assert (alarm["alarm.action"], alarm.get("row")) == ("raised", 1 if device == "cpu" else None)


def test_on_prefill_the_batch_that_ran_last_is_looked_at(prefill: Rig) -> None:
    req = decoding(prefill, "one", 1)
    running(prefill)
    prefill.scheduler.last_batch = SimpleNamespace(reqs=[req])
    violation(prefill, slot=slot_of(1, 5), position=5)
    assert prefill.only("alarm:kv_canary")["row"] == 1


def test_no_token_and_no_hash_is_kept(decode: Rig) -> None:
    running(decode, decoding(decode, "one", 1))
    violation(decode, slot=slot_of(1, 5), position=5)
    values = decode.only("alarm:kv_canary").values()
    assert not {STORED_TOKEN, EXPECTED_TOKEN} & {value for value in values if isinstance(value, int)}


def test_a_row_of_another_shape_is_left_alone(decode: Rig) -> None:
    decode.alarms.before_violation(row=[1, 2, 3])
    assert decode.facts == []


def test_a_table_on_a_device_is_not_waited_for_and_the_leg_waits_for_its_alarm(decode: Rig) -> None:
    device = decode.on_device()
    req = decoding(decode, "one", 1)
    running(decode, req)
    violation(decode, slot=slot_of(1, 5), position=5)
    assert "alarm:kv_canary" not in decode.story()
    decode.finish(req)
    assert not decode.story()[-1].startswith("end")
    device.arrived = True
    decode.parts.copies.poll()
    assert decode.only("alarm:kv_canary")["row"] == 1
    assert decode.story()[-1] == "end:finished"
    assert decode.complete()


def test_a_checksum_mismatch_names_the_request(decode: Rig) -> None:
    req = decoding(decode, "one", 3)
    decode.alarms.before_checksum_mismatch(None, req, "KV checksum mismatch for one: 0x1 != 0x2")
    alarm = decode.only("alarm:kv_checksum")
    assert (alarm["alarm.action"], alarm["alarm.reason"], alarm["row"]) == ("aborted", "checksum", 3)
    assert decode.story(req)[-1] == "alarm:kv_checksum"
