"""The bulk encoder's bytes are the agent's own."""

from __future__ import annotations

import pytest

from lab.fleet.agent import Posted
from lab.fleet.bulk import varint
from lab.fleet.faults import parse
from lab.fleet.simulate import run_fleet
from lab.fleet.spec import FleetSpec
from tests.support.fleets import SHAPE, small_fleet


@pytest.mark.parametrize("fault", ["", "reject_placeholder,short_transfer:0.2", "abort_continue:0.2"])
def test_a_fleet_posts_the_same_bytes_either_way(fault: str) -> None:
    fields = SHAPE | {"seed": 11, "injections": parse(fault), "retracts": 0.3, "restarts": 1, "crashes": 1}
    posted: dict[bool, list[Posted]] = {True: [], False: []}
    for bulk, bodies in posted.items():
        run_fleet(FleetSpec(bulk_encoder=bulk, **fields), bodies.append)
    assert posted[True] == posted[False]


def test_numbers_are_varints() -> None:
    assert [varint(number) for number in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]
    assert varint(-1) == b"\xff" * 9 + b"\x01"


def test_no_body_is_larger_than_the_receiver_takes() -> None:
    posted = small_fleet(1, requests=300, flush_seconds=3600.0).posted
    assert max(len(body.data) for body in posted) <= 900_000
