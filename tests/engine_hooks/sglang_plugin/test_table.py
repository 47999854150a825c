"""The table of hook points: which rows a node has, and what nobody tells it there."""

from __future__ import annotations

import pytest

from engine_hooks.conventions import SPANS
from engine_hooks.sglang_plugin.table import (
    TABLE,
    VERSIONS,
    best_fit,
    is_known,
    parse_version,
    targets_for,
    unsupplied,
)
from engine_hooks.sglang_plugin.targets import NEWEST, OLDEST, Version
from tests.engine_hooks.sglang_plugin.support import Rig

TIERS = ("control", "exact")
THREADS = {"scheduler", "transfer"}
COSTS = {"request", "chunk", "step", "group", "rare"}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.19", (0, 5, 19)),
        ("0.5.23.post1", (0, 5, 23)),
        ("0.6.0rc1", (0, 6, 0)),
        ("0.0.0.dev1", NEWEST),
        ("unknown", NEWEST),
    ],
)
def test_engine_versions(text: str, version: Version) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(("outside", "edge"), [((0, 5, 10), OLDEST), ((1, 0, 0), NEWEST)])
def test_a_version_outside_the_table_gets_the_nearest_edge(outside: Version, edge: Version) -> None:
    assert targets_for(outside) == targets_for(edge)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("backend", ["mooncake", "nixl", "mori"])
@pytest.mark.parametrize("function", ["send_metadata", "send"])
def test_one_hook_a_call_of_each_backend(version: Version, backend: str, function: str) -> None:
    """A base class and the class that overrides it must not both be hooked: the fact would come twice."""
    rows = [row for row in targets_for(version) if row.path.endswith(f".{function}") and row.backend in ("", backend)]
    assert len([row for row in rows if ".fake." not in row.path]) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_no_place_is_hooked_twice_on_the_same_side(version: Version) -> None:
    places = [(row.path, row.when) for row in targets_for(version)]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_unique_on_a_node(version: Version, tier: str) -> None:
    rows = targets_for(version, tier)
    assert len({row.name for row in rows}) == len(rows)


def test_every_row_has_its_handler_and_every_handler_its_row(decode: Rig) -> None:
    named = {row.handler for row in TABLE}
    known = {
        f"{part}.{name}"
        for part, handler in decode.parts.handlers.items()
        for name in dir(handler)
        if name.startswith(("before_", "after_"))
    }
    assert named == known


def test_facts_are_named_after_the_contract() -> None:
    spans = {span.name.removeprefix("pagewitness.") for span in SPANS}
    facts = {fact for row in TABLE for fact in row.facts}
    assert {fact for fact in facts if not any(fact == span or fact.startswith(f"{span}.") for span in spans)} == set()


def test_every_row_says_on_which_thread_it_runs_and_how_often() -> None:
    assert {row.thread for row in TABLE} <= THREADS
    assert {row.cost for row in TABLE} <= COSTS


@pytest.mark.parametrize(("text", "known"), [("0.5.11", True), ("0.5.23.post1", True), ("0.5.10", False)])
def test_a_version_is_known_if_the_table_was_read_in_its_source(text: str, known: bool) -> None:
    assert is_known(text) is known


@pytest.mark.parametrize("text", ["0.5.24", "0.6.0", "0.0.0.dev1", "main"])
def test_what_is_newer_or_says_no_version_is_unknown(text: str) -> None:
    assert not is_known(text)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_engine_gets_the_rows_that_fit_it_best(version: Version, tier: str) -> None:
    """An engine in which exactly the places of one version are found."""
    here = set(targets_for(version, tier))
    assert set(best_fit(here.__contains__, tier)) == here


def test_one_place_that_is_gone_changes_no_other() -> None:
    newest = targets_for(NEWEST)
    rows = best_fit(lambda row: row in newest and row is not newest[0], "exact")
    assert rows == newest


def test_a_fact_that_only_other_versions_supply_is_unsupplied() -> None:
    assert "transfer.landed" in unsupplied(targets_for((0, 5, 19)), "exact", "mooncake")
    assert "transfer.landed" not in unsupplied(targets_for(NEWEST), "exact", "mooncake")


def test_the_control_tier_is_not_expected_to_supply_what_the_exact_one_does() -> None:
    assert "page.step" not in unsupplied(targets_for(NEWEST, "control"), "control", "mooncake")
    assert "page.step" in unsupplied(targets_for(NEWEST, "control"), "exact", "mooncake")


@pytest.mark.parametrize("backend", ["mooncake", "nixl", "mori"])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_rules_of_the_control_tier_look_at_is_supplied_everywhere(version: Version, backend: str) -> None:
    missing = unsupplied(targets_for(version, "control"), "control", backend)
    assert missing <= {"transfer.landed", "alarm"}
