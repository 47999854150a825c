"""Keeps the newest rows, which answers read, in line with the versions, which are the truth.

Two writes can be cut apart, so none here is trusted to have happened: `settle` looks at what stands in both tables and
writes the difference in one insert, the row that stood with the sign -1 and the new one with +1. Doing it again writes
nothing. Who adds versions calls it afterwards; what a pass that was cut off left, the next one settles as it begins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from detectors.queries import Queries

_UNSETTLED = """
SELECT {key} FROM (SELECT {key}, max(version) AS last FROM {versions} WHERE version >= {since} GROUP BY {key})
WHERE ({key}, last) NOT IN (
    SELECT {key}, version FROM {newest} WHERE version >= {since} GROUP BY {key}, version HAVING sum(sign) > 0)
"""
# In one block, so that both rows of a change are there or none is.
_SETTLE = """
INSERT INTO {newest}
WITH
    told AS (SELECT * FROM {versions} WHERE {key} IN ({unsettled})),
    last AS (SELECT * FROM (SELECT * FROM told ORDER BY version DESC LIMIT 1 BY {key}) WHERE NOT ({gone})),
    stood AS (SELECT * FROM {newest} FINAL WHERE ({order}) IN (SELECT {order} FROM told))
SELECT * EXCEPT sign, -1 AS sign FROM stood WHERE ({key}, version) NOT IN (SELECT {key}, version FROM last)
UNION ALL
SELECT {columns}, 1 AS sign FROM last WHERE ({key}, version) NOT IN (SELECT {key}, version FROM stood)
SETTINGS max_insert_threads = 1, min_insert_block_size_rows = 10000000, min_insert_block_size_bytes = 0
"""


@dataclass(frozen=True, slots=True)
class Newest:
    """A table of newest rows, and the one of the versions that it is made of.

    `order` is its sorting key, `columns` what it has of a version, and `gone` the condition on a version with which its
    row no longer stands.
    """

    newest: str
    versions: str
    key: str
    order: str
    columns: str
    gone: str

    def settle(self, store: Queries, since: int) -> None:
        """Bring in line every row that has a version of `since` or above."""
        names = {"newest": self.newest, "versions": self.versions, "key": self.key, "since": str(since)}
        unsettled = _UNSETTLED.format(**names)
        if store.rows(f"SELECT {self.key} FROM ({unsettled}) LIMIT 1"):
            more = {"order": self.order, "columns": self.columns, "gone": self.gone, "unsettled": unsettled}
            store.command(_SETTLE.format(**names, **more))


NEWEST = (
    Newest(
        newest="newest_responses",
        versions="response_versions",
        key="response_uid",
        order="verdict, tenant_key, tenant, started, response_uid",
        columns="*",
        gone="verdict = 'retired'",
    ),
    Newest(
        newest="newest_findings",
        versions="finding_versions",
        key="finding_id",
        order="tenant_key, tenant, effect, response_uid, finding_id",
        columns="* EXCEPT retracted",
        gone="retracted",
    ),
)


def settle(store: Queries, since: int) -> None:
    """Bring what answers read in line with every version of `since` or above."""
    for table in NEWEST:
        table.settle(store, since)


def last_end(store: Queries) -> int:
    """The newest version that stood when the last pass ended; 0 before there was one."""
    (row,) = store.rows("SELECT max(version) AS version FROM detection_ends")
    end: int = row["version"]
    return end


def begin_pass(store: Queries) -> tuple[int, int]:
    """Settle what a pass that was cut off left; the least version that counts as of this pass, with those of the one
    cut off, and a version at or above all that there are.

    Versions never go back, even where the clock does: an incident that was frozen by one must not change.
    """
    end = last_end(store)
    settle(store, end + 1)
    newest = [store.rows(f"SELECT max(version) AS version FROM {table.versions}")[0]["version"] for table in NEWEST]
    return end + 1, max(end, *newest)


def later_version(version: int) -> int:
    """A version above this one: nanoseconds of now, unless the clock is behind it."""
    return max(time.time_ns(), version + 1)
