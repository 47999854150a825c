"""What a request takes on the disk, all its facts and its verdict.

A simulated fleet with chunked prefill over the control tier, stored as its agents posted it, judged, and merged into
one part. `ids and numbers` is everything but the page lists; `page lists` are the runs that each list of pages is
stored as, which depend on how scattered the pool is. `content hash` tells a fact that came twice from one that
contradicts another. The goal is 150 bytes a request, 250 at the most, without the lists: it is not reached.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from collector.store import Handle, open_store
from detectors.runner import Runner
from lab.fleet.spec import TrafficSpec
from tests.support.fleets import small_fleet

TITLE = "Bytes stored"
REQUESTS = 1_500
GOALS = {"ids and numbers, of evidence": 150.0}
LISTS = ("pages_start", "pages_length")
_TABLES = """
SELECT table, sum(bytes_on_disk) AS bytes FROM system.parts
WHERE active AND database = currentDatabase() GROUP BY table ORDER BY bytes DESC
"""
_COLUMNS = """
SELECT column, sum(column_data_compressed_bytes + column_marks_bytes) AS bytes FROM system.parts_columns
WHERE active AND database = currentDatabase() AND table = 'evidence' GROUP BY column
"""
_RUNS = """
SELECT countIf(notEmpty(pages_start)) AS lists, sum(length(pages_start)) AS runs, sum(arraySum(pages_length)) AS pages,
    count() AS facts
FROM evidence
"""
_VERDICTS = ("response_versions", "newest_responses")


def run() -> dict[str, dict[str, float]]:
    """Bytes of a request, by what they are of."""
    fleet = small_fleet(
        3, requests=REQUESTS, prefill_pages=2_000, decode_pages=4_000, page_size=16, chunk_tokens=512,
        traffic=TrafficSpec(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder)) as store:
        for body in fleet.bodies:
            store.insert_otlp(body)
        handle = store.handle()
        Runner(handle).run_once()
        return _figures(handle)


def _figures(handle: Handle) -> dict[str, dict[str, float]]:
    for row in handle.rows(_TABLES):
        handle.command(f"OPTIMIZE TABLE {row['table']} FINAL")
    tables = {row["table"]: row["bytes"] for row in handle.rows(_TABLES)}
    columns = {row["column"]: row["bytes"] for row in handle.rows(_COLUMNS)}
    lists = sum(columns[name] for name in LISTS)
    verdicts = sum(tables.get(name, 0) for name in _VERDICTS)
    (runs,) = handle.rows(_RUNS)
    others = sum(tables.values()) - tables["evidence"] - verdicts
    found = {
        "ids and numbers, of evidence": tables["evidence"] - lists,
        "of these, the content hash": columns["content_hash"],
        "page lists": lists,
        "verdicts, every version": tables["response_versions"],
        "verdicts, the newest again": tables["newest_responses"],
        "all else": others,
    }
    rows = {name: {"bytes a request": size / REQUESTS} for name, size in found.items()}
    rows["facts"] = {"a request": runs["facts"] / REQUESTS}
    rows["page lists, how many"] = {"a request": runs["lists"] / REQUESTS}
    rows["runs"] = {"a list": runs["runs"] / runs["lists"]}
    rows["pages"] = {"a list": runs["pages"] / runs["lists"]}
    return rows


if __name__ == "__main__":
    import sys

    from benchmarks.__main__ import main

    sys.exit(main(["bench_bytes"]))
