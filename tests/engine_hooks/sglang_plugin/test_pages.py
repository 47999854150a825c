"""Exact tier: which pages a leg got, for which positions, and which instance of the page it was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake

PAGE = fake.PAGE


@pytest.fixture
def exact(tmp_path: Path) -> Rig:
    return Rig(tmp_path, role="prefill", tier="exact")


def slots(*pages: int, count: int | None = None) -> fake.Tensor:
    """Token slots of whole pages, in order; the last page only in part where `count` says so."""
    every = [page * PAGE + place for page in pages for place in range(PAGE)]
    return fake.Tensor(every[: len(every) if count is None else count])


def extend(rig: Rig, taken: fake.Tensor, *steps: tuple[fake.Req, int, int]) -> None:
    for req, _, end in steps:
        req.kv = fake.Kv(1, end, end)
    batch = SimpleNamespace(
        reqs=[req for req, _, _ in steps],
        prefix_lens=[start for _, start, _ in steps],
        extend_lens=[end - start for _, start, end in steps],
    )
    rig.pages.after_extend((taken, None, None), batch)


def acquired(rig: Rig) -> list[tuple[str, int, list[int], list[int]]]:
    return [
        (str(fact["purpose"]), fact["acquired.from"], list(fact["pages"]), list(fact["page.generation"]))
        for purpose in ("prefill", "decode", "transfer", "load")
        for fact in rig.every(f"acquire:{purpose}")
    ]


def test_a_prompt_gets_its_pages(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    extend(exact, slots(5, 6, 9, count=10), (req, 0, 10))
    assert acquired(exact) == [("prefill", 0, [5, 6, 9], [1, 1, 1])]


def test_each_request_of_a_batch_gets_its_own(exact: Rig) -> None:
    one, other = exact.admit(fake.Req("one")), exact.admit(fake.Req("other"))
    taken = fake.Tensor([*slots(5, 6).tolist(), *slots(7).tolist()])
    extend(exact, taken, (one, 0, 8), (other, 4, 8))
    assert acquired(exact) == [("prefill", 0, [5, 6], [1, 1]), ("prefill", 4, [7], [1])]


def test_a_chunk_that_begins_within_a_page_gets_only_the_pages_after_it(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    taken = fake.Tensor([5 * PAGE + 2, 5 * PAGE + 3, *slots(8).tolist()])
    extend(exact, taken, (req, 2, 8))
    assert acquired(exact) == [("prefill", 4, [8], [1])]


def test_a_chunk_within_one_page_gets_none(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    extend(exact, fake.Tensor([5 * PAGE + 2]), (req, 2, 3))
    assert acquired(exact) == []


def test_a_decode_step_gets_a_page_only_where_the_one_before_is_full(exact: Rig) -> None:
    full, within = exact.admit(fake.Req("full")), exact.admit(fake.Req("within"))
    for req in (full, within):
        req.kv = fake.Kv(1, 8, 8)
    batch = SimpleNamespace(reqs=[within, full], seq_lens_cpu=fake.Tensor([7, 8]))
    exact.pages.after_decode(fake.Tensor([3 * PAGE + 3, 11 * PAGE]), batch, 1)
    assert acquired(exact) == [("decode", 8, [11], [1])]


def test_pages_that_decode_reserves_are_for_a_transfer(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    req.kv = fake.Kv(1, 10, 10)
    exact.pages.after_prealloc(slots(5, 6, count=6), None, req)
    assert acquired(exact) == [("transfer", 4, [5, 6], [1, 1])]


def test_a_page_that_comes_back_is_another_instance(exact: Rig) -> None:
    first, second = exact.admit(fake.Req("first")), exact.admit(fake.Req("second"))
    extend(exact, slots(5), (first, 0, 4))
    exact.pages.before_release_ids(None, fake.Tensor([5]))
    extend(exact, slots(5), (second, 0, 4))
    assert acquired(exact) == [("prefill", 0, [5], [1]), ("prefill", 0, [5], [2])]
    freed = exact.only("free:release")
    assert (list(freed["pages"]), list(freed["page.generation"])) == ([5], [1])


def test_an_acquisition_that_no_hook_saw_counts_when_the_page_is_freed(exact: Rig) -> None:
    exact.pages.before_release_ids(None, fake.Tensor([5]))
    exact.pages.before_release_ids(None, fake.Tensor([5]))
    assert [list(fact["page.generation"]) for fact in exact.every("free:release")] == [[1], [2]]


def test_what_an_eviction_frees_was_only_cached(exact: Rig) -> None:
    exact.pages.before_evict()
    exact.pages.before_release_ids(None, fake.Tensor([5, 6]))
    exact.pages.after_evict()
    exact.pages.before_release_ids(None, fake.Tensor([7]))
    assert list(exact.only("free:evict")["pages"]) == [5, 6]
    assert list(exact.only("free:release")["pages"]) == [7]


@pytest.mark.parametrize(
    "allocator",
    [SimpleNamespace(is_not_in_free_group=True, free_group=[]), SimpleNamespace(free_group=None)],
    ids=["to 0.5.16", "since"],
)
def test_an_older_free_names_slots_and_each_page_goes_back_once(exact: Rig, allocator: Any) -> None:
    exact.pages.before_free(allocator, slots(6, 5))
    assert list(exact.only("free:release")["pages"]) == [5, 6]


@pytest.mark.parametrize(
    "allocator",
    [SimpleNamespace(is_not_in_free_group=False, free_group=[]), SimpleNamespace(free_group=[])],
    ids=["to 0.5.16", "since"],
)
def test_a_free_that_a_group_collects_is_not_one_yet(exact: Rig, allocator: Any) -> None:
    exact.pages.before_free(allocator, slots(5))
    assert exact.every("free:release") == []


def test_pages_of_another_pool_are_not_counted_as_the_kv_pools(exact: Rig) -> None:
    kv, window = fake.Allocator(), fake.Allocator()
    exact.legs.limits.allocator = lambda: kv
    exact.pages.before_release_ids(window, fake.Tensor([5]))
    exact.pages.before_release_ids(kv, fake.Tensor([6]))
    assert list(exact.only("free:release")["pages"]) == [6]


def test_a_leg_ends_only_when_its_page_ids_have_arrived_from_the_device(exact: Rig) -> None:
    device = exact.on_device()
    req = exact.admit(fake.Req())
    extend(exact, fake.Tensor(slots(5)._values, "cuda"), (req, 0, 4))
    exact.stream_abort(req)
    exact.release(req)
    assert exact.every("end:aborted") == []
    device.arrived = True
    exact.stream()
    assert exact.only("end:aborted")["acquired.pages"] == 1
    assert exact.complete()


def test_page_ids_that_never_arrive_make_the_leg_incomplete(exact: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    exact.on_device()
    monkeypatch.setattr("engine_hooks.sglang_plugin.copies.MOST_BYTES", 0)
    req = exact.admit(fake.Req())
    extend(exact, fake.Tensor(slots(5)._values, "cuda"), (req, 0, 4))
    exact.stream_abort(req)
    exact.release(req)
    assert not exact.complete()
