"""Requests that wait go together, in the order in which they came; one that is to blame suffers alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from collector.store.errors import BodyRefusedError, StoreFailedError
from collector.store.receipt import Receipt
from collector.store.turns import MAX_GROUP_BYTES, Turns


class FakeStore:
    """Notes what it is given together, and refuses what is in `poison`. Waits in the first call until told."""

    def __init__(self, poison: Sequence[bytes] = ()) -> None:
        self.groups: list[list[bytes]] = []
        self.poison = set(poison)
        self.busy = threading.Event()
        self.go_on = threading.Event()

    def insert(self, messages: Sequence[bytes]) -> list[Receipt]:
        self.groups.append(list(messages))
        if len(self.groups) == 1:
            self.busy.set()
            assert self.go_on.wait(20)
        if self.poison & set(messages):
            raise BodyRefusedError("poison")
        return [Receipt(stored=len(message)) for message in messages]


def insert_at_once(store: FakeStore, messages: Sequence[bytes]) -> dict[bytes, Receipt | Exception]:
    """Insert the first, and the others in order while the store is busy with it. Gives what each caller got."""
    turns = Turns(store.insert)
    outcomes: dict[bytes, Receipt | Exception] = {}

    def call(message: bytes) -> None:
        try:
            outcomes[message] = turns.insert(message)
        except (BodyRefusedError, StoreFailedError) as error:
            outcomes[message] = error

    threads = [threading.Thread(target=call, args=[message]) for message in messages]
    for number, thread in enumerate(threads):
        thread.start()
        assert store.busy.wait(20)
        while number > 0 and turns.waiting < number:
            pass
    store.go_on.set()
    for thread in threads:
        thread.join(20)
    return outcomes


def test_what_waits_goes_together_in_order() -> None:
    store = FakeStore()
    outcomes = insert_at_once(store, [b"1", b"22", b"333", b"4444"])
    assert store.groups == [[b"1"], [b"22", b"333", b"4444"]]
    assert outcomes == {message: Receipt(stored=len(message)) for message in (b"1", b"22", b"333", b"4444")}


def test_a_group_is_not_larger_than_a_request_may_be() -> None:
    store = FakeStore()
    large, other = bytes(MAX_GROUP_BYTES - 1), b"12"
    insert_at_once(store, [b"1", large, other])
    assert [len(group) for group in store.groups] == [1, 1, 1]


def test_one_that_is_to_blame_fails_alone() -> None:
    store = FakeStore(poison=[b"bad"])
    outcomes = insert_at_once(store, [b"1", b"22", b"bad", b"4444"])
    assert {message for message, outcome in outcomes.items() if isinstance(outcome, Exception)} == {b"bad"}
    assert outcomes[b"4444"] == Receipt(stored=4)


def test_an_error_that_nobody_expects_leaves_nobody_waiting() -> None:
    def insert(messages: Sequence[bytes]) -> list[Receipt]:
        raise RuntimeError("bug")

    turns = Turns(insert)
    with pytest.raises(RuntimeError, match="bug"):
        turns.insert(b"1")
    with pytest.raises(RuntimeError, match="bug"):
        turns.insert(b"2")
