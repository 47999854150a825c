"""The prefix cache: found by tokens, kept while it is used, evicted leaf by leaf."""

from __future__ import annotations

import numpy as np

from lab.fleet.pages import PagePool, Pages
from lab.fleet.prefix_cache import PrefixCache

PREAMBLE, FIRST, SECOND = 100, 1, 2


def pages(*numbers: int) -> Pages:
    return np.array(numbers, np.int32)


def filled() -> tuple[PagePool, PrefixCache, Pages]:
    """A pool of eight pages, four of which a request has left in the cache: two of its preamble, two of its own."""
    pool = PagePool(8, 4, lifo=False)
    cache = PrefixCache(pool)
    mine = pool.take(5)
    assert mine is not None
    pool.give(cache.publish([(PREAMBLE, 0, 2), (FIRST, 2, 9)], mine, 4))
    return pool, cache, mine


def test_what_is_no_whole_page_goes_back_to_the_free_list() -> None:
    pool, _, _ = filled()
    assert pool.free == 4


def test_another_request_finds_the_part_that_is_its_own_too() -> None:
    _, cache, mine = filled()
    found, used = cache.match([(PREAMBLE, 0, 2), (SECOND, 2, 9)], 9)
    assert found.tolist() == mine[:2].tolist()
    assert used == [PREAMBLE]


def test_no_more_is_matched_than_asked_for() -> None:
    _, cache, mine = filled()
    found, _ = cache.match([(PREAMBLE, 0, 2), (FIRST, 2, 9)], 3)
    assert found.tolist() == mine[:3].tolist()


def test_pages_whose_tokens_are_cached_already_are_spare() -> None:
    pool, cache, _ = filled()
    other = pool.take(4)
    assert other is not None
    spare = cache.publish([(PREAMBLE, 0, 2), (SECOND, 2, 9)], other, 4)
    assert spare.tolist() == other[:2].tolist()


def test_what_is_in_use_and_what_lies_below_it_stays() -> None:
    pool, cache, _ = filled()
    _, used = cache.match([(PREAMBLE, 0, 2)], 2)
    assert cache.make_room(6)  # its own two pages go
    assert not cache.make_room(7)
    cache.unpin(used)
    assert cache.make_room(8)
    assert pool.free == 8
