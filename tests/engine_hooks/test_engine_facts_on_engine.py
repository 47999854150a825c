"""What the real engine concludes and shares: pages that have landed, prefixes, slots, the node's configuration.

Its guards have a test of their own (`test_guards_on_engine`): nothing sets them off on a CPU that serves.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine_hooks.sglang_plugin.on_engine import ROLES, Run
from tests.engine_hooks.sglang_plugin.support import word_of

pytestmark = [pytest.mark.engine, pytest.mark.timeout(500)]

VULNERABLE, FIXED = "0.5.19", "0.5.23"


@pytest.fixture(params=[VULNERABLE, FIXED])
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture
def exact(runs: Callable[[str], Run]) -> Run:
    return runs(VULNERABLE)


@pytest.fixture
def fixed(runs: Callable[[str], Run]) -> Run:
    return runs(FIXED)


# ---------------------------------------------------------------------- transfers


def test_both_sides_say_that_the_pages_have_landed(fixed: Run) -> None:
    told = fixed.only("decode", "ordinary", "transfer:landed")
    said = fixed.only("prefill", "ordinary", "transfer:landed")
    assert (told["transfer.side"], told["peer.rank"]) == ("receive", 0)
    assert (said["transfer.side"], "peer.rank" in said) == ("send", False)


def test_as_many_ranks_report_as_decode_waits_for(fixed: Run) -> None:
    landed = [fact for fact in fixed.leg("decode", "ordinary") if word_of(fact) == "transfer:landed"]
    assert len(landed) == fixed.only("decode", "ordinary", "transfer:reserved")["peers"] == 1


def test_nothing_lands_of_what_was_never_sent(fixed: Run) -> None:
    assert "transfer:landed" not in fixed.story("decode", "oversized")


def test_the_manifest_says_how_large_a_page_is_on_either_side(run: Run) -> None:
    """Two layers of keys and values, 16 tokens, 8 heads of 64 numbers of 4 bytes."""
    reserved = run.only("decode", "ordinary", "transfer:reserved")
    assert reserved["page.bytes"] == 2 * 2 * 16 * 8 * 64 * 4
    assert "state.pages" not in reserved


def test_the_sender_says_which_chunk_is_its_last(run: Run) -> None:
    assert run.only("prefill", "ordinary", "transfer:queued")["chunk.last"] is True
    assert run.only("prefill", "ordinary", "transfer:destination")["peers"] == 1


# ---------------------------------------------------------------------- sharing


def test_a_prompt_that_prefill_still_has_is_a_match_in_its_namespace(run: Run) -> None:
    match = run.only("prefill", "again", "share:match")
    assert match["shared.tokens"] == 96  # whole pages of a prompt of 100
    assert match["key.composition"] == ("tokens", "cache_salt", "extra_key", "lora")
    assert match["namespace"] == run.only("prefill", "first", "admission:admitted")["namespace"]
    assert "share:match" not in run.story("prefill", "ordinary")


def test_another_salt_is_another_namespace(run: Run) -> None:
    one, other = (run.only("prefill", name, "admission:admitted") for name in ("ordinary", "unvouched"))
    assert one["namespace"] != other["namespace"]


def test_decode_without_a_prefix_cache_has_no_namespaces(run: Run) -> None:
    assert "namespace" not in run.only("decode", "ordinary", "admission:admitted")


def test_exact_what_one_request_published_the_next_one_matches(exact: Run) -> None:
    published = [fact for fact in exact.leg("prefill", "first") if word_of(fact) == "share:publish"]
    assert {fact.values["pagewitness.shared.tokens"] for fact in published} == {96}


# ---------------------------------------------------------------------- slots


def test_exact_a_slot_names_the_room_of_its_request_on_both_sides(exact: Run) -> None:
    wrote = exact.only("prefill", "ordinary", "slot.use:write")
    read = exact.only("decode", "ordinary", "slot.use:read")
    room = exact.only("decode", "ordinary", "transfer:reserved")["room"]
    assert wrote["room"] == wrote["slot.room"] == read["room"] == read["slot.room"] == room


def test_control_slots_that_fit_are_no_facts(fixed: Run) -> None:
    for role in ROLES:
        assert not [fact for fact in fixed.facts[role] if fact.span.name == "pagewitness.slot.use"]


# ---------------------------------------------------------------------- the configuration


@pytest.mark.parametrize("role", ROLES)
def test_the_configuration_names_every_rank(run: Run, role: str) -> None:
    port = {"prefill": 31000, "decode": 31001}[role]
    config = run.config(role)
    assert config["rank.names"] == (f"lab1/{role}-{port}-tp0",)
    assert (config["parallel.tp"], config["parallel.pp"], config["parallel.dp"]) == (1, 1, 1)


@pytest.mark.parametrize("role", ROLES)
def test_the_configuration_says_what_the_pool_is(run: Run, role: str) -> None:
    config = run.config(role)
    assert config["kv.layout"].startswith("MHATokenToKVPool layer_num=2 ")
    assert config["kv.layout"] == run.config("prefill")["kv.layout"], "the two sides must agree on it"
    assert config["components"] == ("kv", "aux")
    assert config["host.tokens"] == 0
    assert config["slots"] > 0


def test_the_configuration_says_which_protections_are_on(run: Run) -> None:
    safety = run.config("decode")["safety"]
    assert safety == (("room_check", "deferred_release=30") if run.version == FIXED else ("room_check",))
    assert run.config("prefill")["safety"] == ()


def test_a_release_that_waited_for_prefill_says_that_it_had_stopped_writing(fixed: Run) -> None:
    assert "release:deferred" in fixed.story("decode", "oversized")
