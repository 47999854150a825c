"""Metadata slots: which room their content names.

The room check itself cannot be provoked here: the shapes are those of the engine's source, and
`test_guards_on_engine` drives its own code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake

OTHER_ROOM = 99


@pytest.fixture
def exact(tmp_path: Path) -> Rig:
    return Rig(tmp_path, tier="exact")


def reserved(rig: Rig) -> fake.Req:
    req = rig.admit(fake.Req())
    rig.reserve(req, 10, 11, 12)
    return req


def test_control_a_slot_that_fits_costs_nothing(decode: Rig) -> None:
    decode.commit(reserved(decode))
    assert decode.story() == ["admission:admitted", "transfer:reserved", "transfer:committed"]


def test_control_a_slot_of_another_room_is_named_and_alarms(decode: Rig) -> None:
    decode.commit(reserved(decode), accepted=False, slot_room=OTHER_ROOM)
    assert decode.story()[2:] == ["transfer:refused", "slot.use:read", "alarm:room_check"]
    used = decode.only("slot.use:read")
    assert (used["slot"], used["room"]) == (2, decode.legs.evidence.room(11))
    assert used["slot.room"] == decode.legs.evidence.room(OTHER_ROOM)
    alarm = decode.only("alarm:room_check")
    assert (alarm["alarm.action"], alarm["alarm.reason"], alarm["slot"]) == ("aborted", "room_mismatch", 2)


def test_control_a_slot_that_nobody_filled_alarms(decode: Rig) -> None:
    decode.commit(reserved(decode), accepted=False, slot_room=0)
    assert "slot.room" not in decode.only("slot.use:read")
    assert decode.only("alarm:room_check")["alarm.reason"] == "room_missing"


def test_the_alarm_belongs_to_the_leg(decode: Rig) -> None:
    req = reserved(decode)
    decode.commit(req, accepted=False, slot_room=OTHER_ROOM)
    decode.release(req)
    decode.stream_abort(req, "Metadata corruption detected - bootstrap_room mismatch", 500)
    assert decode.complete()


def test_a_refusal_for_another_reason_is_no_room_check(decode: Rig) -> None:
    decode.commit(reserved(decode), accepted=False)
    assert decode.story()[2:] == ["transfer:refused"]


def test_exact_every_read_is_a_fact(exact: Rig) -> None:
    exact.commit(reserved(exact))
    assert exact.story() == ["admission:admitted", "transfer:reserved", "slot.use:read", "transfer:committed"]
    used = exact.only("slot.use:read")
    assert used["room"] == used["slot.room"]


def test_exact_a_refused_slot_is_read_once(exact: Rig) -> None:
    exact.commit(reserved(exact), accepted=False, slot_room=OTHER_ROOM)
    assert exact.story()[2:] == ["slot.use:read", "transfer:refused", "alarm:room_check"]


def test_exact_prefill_names_what_it_wrote(tmp_path: Path) -> None:
    rig = Rig(tmp_path, role="prefill", tier="exact")
    req = rig.admit(fake.Req())
    rig.buffers.fill(2, req.bootstrap_room)
    rig.slots.after_set_buf(None, rig.buffers, req)
    used = rig.only("slot.use:write")
    assert used["room"] == used["slot.room"] == rig.legs.evidence.room(req.bootstrap_room)


@pytest.mark.parametrize("accepted", [True, False])
def test_slots_on_a_device_are_not_looked_at(exact: Rig, accepted: bool) -> None:
    exact.buffers = fake.MetadataBuffers(device="npu")
    exact.commit(reserved(exact), accepted=accepted, slot_room=OTHER_ROOM)
    assert not {"slot.use:read", "alarm:room_check"} & set(exact.story())
