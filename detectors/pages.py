"""The pages of a leg in token order, as its facts name them."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.legs import ENDS_HOLD, Identity, Leg, expand_runs
from detectors.queries import Queries, Row

MOST_PAGES = 10_000_000
"""More than any pool has; a longer list is not believed."""

UNKNOWN_PAGE = -1
"""Page id of a token position whose page no fact names."""

_PAGES = (
    "SELECT uid, emitter, boot, span, pages_start, pages_length, pages_complete, coalesce(prefix_tokens, 0) AS prefix"
    f" FROM facts WHERE uid IN {{uids:Array(String)}} AND (({ENDS_HOLD}) OR transfer_status = 'reserved')"
    " ORDER BY uid, span, seq"
)


class PageLists:
    """The pages of legs, each read once, and those of many legs in one query."""

    def __init__(self, store: Queries) -> None:
        self._store = store
        self._rows: dict[Identity, list[Row]] = {}

    def load(self, legs: Iterable[Leg]) -> None:
        """Get the pages of these legs ready."""
        wanted = {leg.identity for leg in legs} - self._rows.keys()
        if not wanted:
            return
        self._rows |= {identity: [] for identity in wanted}
        for row in self._store.rows(_PAGES, {"uids": sorted({uid for uid, _, _ in wanted})}):
            identity = (row["uid"], row["emitter"], row["boot"])
            if identity in wanted:
                self._rows[identity].append(row)

    def of(self, leg: Leg, page_size: int) -> tuple[int, ...]:
        """A leg's pages in token order from position 0; UNKNOWN_PAGE where only later ones are known.

        From its release, which names every page; while it runs, from the reservation, which starts past the prefix.
        """
        self.load([leg])
        for row in self._rows[leg.identity]:  # page.release sorts before transfer
            if row["span"] == "pagewitness.page.release" and row["pages_complete"]:
                return expand_runs(row["pages_start"], row["pages_length"])
            if row["span"] == "pagewitness.transfer":
                before: int = row["prefix"] // page_size
                pages = expand_runs(row["pages_start"], row["pages_length"])
                return (UNKNOWN_PAGE,) * before + pages if before <= MOST_PAGES else ()
        return ()
