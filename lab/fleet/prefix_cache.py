"""A prefix cache: whole pages of finished requests, found again by the tokens in front of and in them.

Tokens have no text here. Requests form trees: each begins with the first tokens of its parent (the conversation that
it goes on with, or the tenant's preamble), so the key of a page is the request that brought its tokens in, and its
place. Tenants have trees of their own, as namespaces do.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from lab.fleet.pages import NO_PAGES, PagePool, Pages

Run = tuple[int, int, int]
"""(node of the tree, first page, one past the last): pages of a request whose tokens that node brought in."""


@dataclass(slots=True)
class _Entry:
    """Cached pages that one node brought in: pages `first`, `first` + 1, ... of every request below it."""

    first: int
    pages: Pages
    pins: int = 0  # legs that use it now
    children: set[int] = field(default_factory=set)
    parent: int | None = None


class PrefixCache:
    """The cached pages of one node of the fleet. Cached pages are off the pool's free list until they are evicted."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._entries: OrderedDict[int, _Entry] = OrderedDict()  # least recently used first

    def match(self, runs: list[Run], most: int) -> tuple[Pages, list[int]]:
        """The longest cached beginning of a request, at most so many pages, and the entries that it is made of, which
        stay until `unpin`."""
        found: list[Pages] = []
        used: list[int] = []
        for node, first, end in runs:
            entry = self._entries.get(node)
            end = min(end, most)
            if entry is None or first >= end:
                break
            part = entry.pages[first - entry.first : end - entry.first]
            if not len(part):
                break
            found.append(part)
            used.append(node)
            entry.pins += 1
            self._entries.move_to_end(node)
            if first + len(part) < end:
                break
        return (np.concatenate(found) if found else NO_PAGES), used

    def unpin(self, used: list[int]) -> None:
        """A leg is through with these entries."""
        for node in used:
            self._entries[node].pins -= 1

    def publish(self, runs: list[Run], pages: Pages, whole: int) -> Pages:
        """A request that is over leaves its first `whole` pages here. Returns those of its pages that go back to the
        free list: the ones behind, and those whose tokens the cache has in other pages."""
        spare: list[Pages] = []
        above: int | None = None
        kept = 0
        for node, first, end in runs:
            end = min(end, whole)
            if first >= end:
                break
            entry = self._entries.get(node)
            if entry is None:
                entry = self._entries[node] = _Entry(first, NO_PAGES, parent=above)
                if above is not None:
                    self._entries[above].children.add(node)
            known = entry.first + len(entry.pages)
            if known < end:
                entry.pages = np.concatenate([entry.pages, pages[max(known, first) : end]])
            shared = min(known, end)
            mine = pages[first:shared]
            spare.append(mine[mine != entry.pages[first - entry.first : shared - entry.first]])
            self._entries.move_to_end(node)
            above, kept = node, end
        return np.concatenate([*spare, pages[kept:]])

    def make_room(self, pages: int) -> bool:
        """Evict what was not used for the longest time until so many pages are free. False if that cannot be."""
        while self._pool.free < pages:
            victim = next((node for node, one in self._entries.items() if not one.pins and not one.children), None)
            if victim is None:
                return False
            entry = self._entries.pop(victim)
            if entry.parent is not None:
                self._entries[entry.parent].children.discard(victim)
            self._pool.give(entry.pages)
        return True
