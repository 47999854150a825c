"""The pages of a leg in token order, as its facts name them."""

from __future__ import annotations

from detectors.legs import ENDS_HOLD, Leg, expand_runs
from detectors.queries import Queries, Row

MOST_PAGES = 10_000_000
"""More than any pool has; a longer list is not believed."""

UNKNOWN_PAGE = -1
"""Page id of a token position whose page no fact names."""


def pages_of(store: Queries, leg: Leg, page_size: int) -> tuple[int, ...]:
    """A leg's pages in token order from position 0; UNKNOWN_PAGE where only later ones are known.

    From its release, which names every page; while it runs, from the reservation, which starts past the prefix.
    """
    rows: list[Row] = store.rows(
        "SELECT span, pages_start, pages_length, pages_complete, coalesce(prefix_tokens, 0) AS prefix FROM facts"
        " WHERE uid = {uid:String} AND emitter = {emitter:String} AND boot = {boot:String}"
        f" AND (({ENDS_HOLD}) OR transfer_status = 'reserved')"
        " ORDER BY span, seq",
        {"uid": leg.uid, "emitter": leg.emitter, "boot": leg.boot},
    )
    for row in rows:  # page.release sorts before transfer
        pages = expand_runs(row["pages_start"], row["pages_length"])
        if row["span"] == "pagewitness.page.release" and row["pages_complete"]:
            return pages
        if row["span"] == "pagewitness.transfer":
            before: int = row["prefix"] // page_size
            return (UNKNOWN_PAGE,) * before + pages if before <= MOST_PAGES else ()
    return ()
