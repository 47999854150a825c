"""A pool of pages whose slots hold content, and its free list.

A slot knows three things: whose KV is in it (the request whose forward computed it), for whose tokens the bytes were
put there (a transfer puts a prompt there for the request that it is sent for, whoever computed it; what comes with its
last page, for nobody), and whether that KV was computed over foreign KV (taint). A number is a request's index plus
one; 0 stands for nobody.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pages: TypeAlias = NDArray[np.int32]
Slots: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

NO_PAGES: Pages = np.zeros(0, np.int32)


class PagePool:
    """Pages of one node. `lifo`: the page that was freed last is taken first; else the one that was freed first."""

    def __init__(self, pages: int, page_size: int, *, lifo: bool) -> None:
        self.page_size = page_size
        self.pages = pages
        self.writer = np.zeros((pages, page_size), np.int32)
        self.placed = np.zeros((pages, page_size), np.int32)
        self.taint = np.zeros((pages, page_size), np.bool_)
        self._lifo = lifo
        self._free: list[int] = list(range(pages))
        self._head = 0  # of a first-in-first-out list: entries before it are taken

    @property
    def free(self) -> int:
        """How many pages are on the free list."""
        return len(self._free) - self._head

    def take(self, count: int) -> Pages | None:
        """So many pages off the free list, or None if there are fewer. Their content stays."""
        if count > self.free:
            return None
        if self._lifo:
            start = len(self._free) - count
            taken = self._free[start:][::-1]
            del self._free[start:]
        else:
            taken = self._free[self._head : self._head + count]
            self._head += count
            if self._head > 4 * self.pages:
                del self._free[: self._head]
                self._head = 0
        return np.array(taken, np.int32)

    def give(self, pages: Pages) -> None:
        """Put pages on the free list. Nothing is wiped."""
        self._free.extend(pages.tolist())

    def write(self, pages: Pages, start: int, end: int, owner: int, *, tainted: bool) -> None:
        """A forward writes token positions [start, end) of a request whose pages are these, in token order."""
        if end <= start:
            return
        size = self.page_size
        first, last = start // size, (end - 1) // size
        if first == last:
            self._fill(pages[first], slice(start % size, (end - 1) % size + 1), owner, tainted)
            return
        self._fill(pages[first], slice(start % size, size), owner, tainted)
        if last > first + 1:
            self._fill(pages[first + 1 : last], slice(None), owner, tainted)
        self._fill(pages[last], slice(0, (end - 1) % size + 1), owner, tainted)

    def receive(self, pages: Pages, source: PagePool, source_pages: Pages, request: int, tokens: int) -> None:
        """A transfer of so many tokens for this request copies whole pages here, the unused slots of the last too."""
        self.writer[pages] = source.writer[source_pages]
        self.taint[pages] = source.taint[source_pages]
        self.placed[pages] = request
        if tokens < len(pages) * self.page_size:
            self.placed[pages[-1], tokens - (len(pages) - 1) * self.page_size :] = 0

    def content(self, pages: Pages, tokens: int) -> tuple[Slots, Slots, Flags]:
        """(writer, placed, taint) of token positions [0, tokens) of a request with these pages; copies."""
        held = pages[: -(-tokens // self.page_size)]
        return (
            self.writer[held].reshape(-1)[:tokens],
            self.placed[held].reshape(-1)[:tokens],
            self.taint[held].reshape(-1)[:tokens],
        )

    def restore(self, pages: Pages, writer: Slots, taint: Flags, request: int) -> None:
        """A backup of token positions [0, n) comes back into other pages."""
        size, tokens = self.page_size, len(writer)
        whole = tokens // size
        for target, values in ((self.writer, writer), (self.taint, taint)):
            target[pages[:whole]] = values[: whole * size].reshape(whole, size)
            if tokens % size:
                target[pages[whole], : tokens % size] = values[whole * size :]
        self.placed[pages[:whole]] = request
        if tokens % size:
            self.placed[pages[whole], : tokens % size] = request

    def _fill(self, pages: Pages | np.int32, slots: slice, owner: int, tainted: bool) -> None:
        self.writer[pages, slots] = owner
        self.placed[pages, slots] = owner
        self.taint[pages, slots] = tainted
