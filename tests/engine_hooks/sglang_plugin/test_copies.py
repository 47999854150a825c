"""Numbers from a device: handed on when they have arrived, in the order in which they were asked for."""

from __future__ import annotations

from typing import Any

from engine_hooks.sglang_plugin import copies as module
from engine_hooks.sglang_plugin.copies import Copies
from tests.support import fake_sglang as fake


class Taken:
    """What was handed on, in order."""

    def __init__(self) -> None:
        self.all: list[tuple[list[int] | None, int | None]] = []

    def __call__(self, numbers: Any, after_seq: int | None) -> None:
        self.all.append((None if numbers is None else numbers.tolist(), after_seq))


def test_numbers_on_the_cpu_are_there_at_once() -> None:
    taken = Taken()
    Copies(lambda: 7).take(fake.Tensor([1, 2]), taken)
    assert taken.all == [([1, 2], None)]


def test_numbers_on_a_device_come_later_with_the_seq_of_when_they_were_taken() -> None:
    taken, device = Taken(), fake.Device()
    copies = Copies(lambda: 7, device.start)
    copies.take(fake.Tensor([1, 2], "cuda"), taken)
    copies.poll()
    assert taken.all == []
    device.arrived = True
    copies.poll()
    assert taken.all == [([1, 2], 7)]


def test_what_the_device_holds_later_does_not_change_what_was_taken() -> None:
    taken, device = Taken(), fake.Device()
    copies = Copies(lambda: 7, device.start)
    tensor = fake.Tensor([1, 2], "cuda")
    copies.take(tensor, taken)
    tensor._values[:] = 9
    device.arrived = True
    copies.poll()
    assert taken.all == [([1, 2], 7)]


def test_numbers_on_the_cpu_do_not_overtake_those_under_way() -> None:
    taken, device = Taken(), fake.Device()
    copies = Copies(lambda: 7, device.start)
    copies.take(fake.Tensor([1], "cuda"), taken)
    copies.take(fake.Tensor([2]), taken)
    assert taken.all == []
    device.arrived = True
    copies.poll()
    assert [numbers for numbers, _ in taken.all] == [[1], [2]]


def test_more_than_may_be_in_flight_is_given_up_and_said(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 16)
    taken, device = Taken(), fake.Device()
    copies = Copies(lambda: 7, device.start)
    copies.take(fake.Tensor([1, 2], "cuda"), taken)
    copies.take(fake.Tensor([3], "cuda"), taken)
    assert taken.all == [(None, None)]
    device.arrived = True
    copies.poll()
    copies.take(fake.Tensor([4], "cuda"), taken)
    copies.poll()
    assert taken.all[1:] == [([1, 2], 7), ([4], 7)]


def test_at_the_end_what_has_not_arrived_is_given_up() -> None:
    taken, device = Taken(), fake.Device()
    copies = Copies(lambda: 7, device.start)
    copies.take(fake.Tensor([1], "cuda"), taken)
    copies.poll(last=True)
    assert taken.all == [(None, 7)]
