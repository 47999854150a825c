"""The content of pools: who wrote a slot, for whom it was put there, and free lists in both orders."""

from __future__ import annotations

import numpy as np

from lab.fleet.pages import PagePool, Pages


def pages(*numbers: int) -> Pages:
    return np.array(numbers, np.int32)


def test_a_first_in_first_out_list_gives_the_page_that_has_been_free_longest() -> None:
    pool = PagePool(4, 4, lifo=False)
    pool.give(taken(pool, 2)[::-1])
    assert taken(pool, 4).tolist() == [2, 3, 1, 0]


def test_a_last_in_first_out_list_gives_the_page_that_was_freed_last() -> None:
    pool = PagePool(4, 4, lifo=True)
    first = taken(pool, 2)
    pool.give(first[::-1])
    assert taken(pool, 1).tolist() == [first[0]]


def test_there_are_no_more_pages_than_there_are() -> None:
    pool = PagePool(4, 4, lifo=False)
    assert pool.take(5) is None
    for _ in range(50):
        pool.give(taken(pool, 3))
    assert sorted(taken(pool, 4).tolist()) == [0, 1, 2, 3]


def test_a_forward_writes_positions_and_nothing_beside_them() -> None:
    pool = PagePool(8, 4, lifo=False)
    pool.write(pages(5, 2, 7), 3, 10, 9, tainted=True)
    written = [(page, slot) for page in range(8) for slot in range(4) if pool.writer[page, slot] == 9]
    assert written == [(2, 0), (2, 1), (2, 2), (2, 3), (5, 3), (7, 0), (7, 1)]
    assert [(page, slot) for page in range(8) for slot in range(4) if pool.taint[page, slot]] == written


def test_a_transfer_copies_whole_pages_and_what_the_source_page_held() -> None:
    prefill, decode = PagePool(4, 4, lifo=False), PagePool(4, 4, lifo=False)
    prefill.write(pages(1), 0, 4, 7, tainted=False)
    prefill.write(pages(0, 1), 0, 6, 8, tainted=False)
    decode.receive(pages(3, 2), prefill, pages(0, 1), 8, tokens=6)
    assert decode.writer[2].tolist() == [8, 8, 7, 7]
    assert decode.placed[2].tolist() == [8, 8, 0, 0]
    assert decode.placed[3].tolist() == [8, 8, 8, 8]


def test_giving_pages_back_wipes_nothing() -> None:
    pool = PagePool(2, 4, lifo=True)
    mine = taken(pool, 1)
    pool.write(mine, 0, 4, 3, tainted=False)
    pool.give(mine)
    writer, _, _ = pool.content(taken(pool, 1), 4)
    assert writer.tolist() == [3, 3, 3, 3]


def test_a_backup_comes_back_into_other_pages() -> None:
    pool = PagePool(4, 4, lifo=False)
    pool.write(pages(0, 1), 0, 6, 5, tainted=False)
    writer, _, taint = pool.content(pages(0, 1), 6)
    pool.restore(pages(3, 2), writer, taint, 5)
    assert pool.writer[[3, 2]].reshape(-1).tolist() == [5] * 6 + [0, 0]


def taken(pool: PagePool, count: int) -> Pages:
    found = pool.take(count)
    assert found is not None
    return found
