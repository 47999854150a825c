"""Where the hooks attach in SGLang, as data: one table for all versions and tiers."""

from __future__ import annotations

import re
from collections.abc import Callable

from engine_hooks.sglang_plugin.table_control import CONTROL
from engine_hooks.sglang_plugin.table_engine import ENGINE
from engine_hooks.sglang_plugin.table_older import OLDER
from engine_hooks.sglang_plugin.table_pages import PAGES
from engine_hooks.sglang_plugin.targets import NEWEST, OLDEST, Target, Version

TABLE: tuple[Target, ...] = (*CONTROL, *OLDER, *ENGINE, *PAGES)

VERSIONS: tuple[Version, ...] = tuple((0, 5, patch) for patch in range(OLDEST[2], NEWEST[2] + 1))
"""The engine versions whose source the table was read in."""


def parse_version(text: str) -> Version:
    """The first three numbers of an engine version; what is no version (a build from source) counts as the newest."""
    return _numbers(text) or NEWEST


def is_known(text: str) -> bool:
    """Whether the table was read in the source of the engine that says this of its version."""
    return _numbers(text) in VERSIONS


def targets_for(version: Version, tier: str = "exact") -> tuple[Target, ...]:
    """The rows of the table for an engine version, up to a tier (at one place the exact tier's row does the work of the
    control tier's too); a version outside the table gets those of its nearest edge."""
    at = min(max(version, OLDEST), NEWEST)
    rows = [row for row in TABLE if row.since <= at and (row.until is None or at <= row.until)]
    exact = {(row.path, row.when) for row in rows if row.tier == "exact"}
    if tier == "control":
        return tuple(row for row in rows if row.tier == "control")
    return tuple(row for row in rows if row.tier == "exact" or (row.path, row.when) not in exact)


def best_fit(fits: Callable[[Target], bool], tier: str) -> tuple[Target, ...]:
    """The rows for an engine that is not in the table: those of the version that fits it best, the newer where two do.

    `fits` says whether a row's place is there and has the parameters in use. The rows of one version are taken whole:
    those of several could see the same call twice.
    """
    known = {row: fits(row) for row in TABLE}
    candidates = [targets_for(version, tier) for version in reversed(VERSIONS)]
    return max(candidates, key=lambda rows: sum(1 if known[row] else -1 for row in rows))


def facts_of(rows: tuple[Target, ...], backend: str) -> set[str]:
    """What these rows supply, alone or with others, on a node with this transfer backend."""
    return {fact for row in relevant(rows, backend) for fact in row.facts}


def unsupplied(rows: tuple[Target, ...], tier: str, backend: str) -> set[str]:
    """Facts that the table has in this tier in some version, and that none of these rows supplies."""
    whole = tuple(row for row in TABLE if tier == "exact" or row.tier == "control")
    return facts_of(whole, backend) - facts_of(rows, backend)


def relevant(rows: tuple[Target, ...], backend: str) -> tuple[Target, ...]:
    """The rows of nodes with this transfer backend."""
    backend = "mooncake" if backend == "ascend" else backend  # its classes derive from Mooncake's
    return tuple(row for row in rows if row.backend in ("", backend))


def _numbers(text: str) -> Version | None:
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None or match.groups() == ("0", "0", "0"):
        return None
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)
