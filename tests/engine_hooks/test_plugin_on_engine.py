"""The hooks on the real engine: one prefill/decode pair of each version, vulnerable (before 0.5.20) or fixed.

A version that only `python -m lab.engine install --all` installs is under `engine_all`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine_hooks.sglang_plugin.table import parse_version, relevant, targets_for
from lab.engine.install import ALL_VERSIONS, MORE_OVERLAYS
from tests.engine_hooks.sglang_plugin.on_engine import BLIND, MARKER, ROLES, Run, tier_of

pytestmark = pytest.mark.timeout(900)

ORDINARY = {
    "prefill": [
        "admission:admitted", "transfer:destination", "transfer:queued", "release:immediate", "response:length",
        "end:finished",
    ],
    "decode": [
        "admission:admitted", "transfer:reserved", "transfer:committed", "read:first", "read:last",
        "release:immediate", "response:length", "end:finished",
    ],
}  # fmt: skip
TURNED_AWAY = ["admission:rejected", "response:abort", "end:rejected"]


def marked(version: str) -> Any:
    """The version as a parameter, under the mark of the tests that install it."""
    return pytest.param(version, marks=pytest.mark.engine_all if version in MORE_OVERLAYS else pytest.mark.engine)


def since(*version: int) -> list[str]:
    return [one for one in ALL_VERSIONS if parse_version(one) >= version]


FIXED = since(0, 5, 20)
"""From here on prefill turns a rejected prompt away. 0.5.20 lets its transfer begin first, and decode does not wait."""
NEWER = since(0, 5, 22)


@pytest.fixture(params=map(marked, ALL_VERSIONS))
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture(params=[marked(version) for version in ALL_VERSIONS if version not in FIXED])
def vulnerable(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture(params=map(marked, FIXED))
def fixed(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.fixture(params=map(marked, NEWER))
def newer(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


def ordinary(run: Run, role: str) -> list[str]:
    """What an ordinary request leaves; that its pages have landed is said from 0.5.20 on, just before it counts."""
    story = list(ORDINARY[role])
    if run.version in FIXED:
        story.insert(story.index("transfer:queued") + 1 if role == "prefill" else 2, "transfer:landed")
    return story


# ---------------------------------------------------------------------- every leg


@pytest.mark.parametrize("role", ROLES)
def test_every_hook_point_is_on(run: Run, role: str) -> None:
    wanted = relevant(targets_for(parse_version(run.version), tier_of(run.version)), "mooncake")
    assert list(run.config(role)["hooks.missing"]) == BLIND[run.version]
    assert list(run.config(role)["hooks.attached"]) == sorted(row.name for row in wanted)


@pytest.mark.parametrize("role", ROLES)
def test_no_hook_failed_and_no_fact_was_dropped(run: Run, role: str) -> None:
    assert (run.errors[role], run.drops[role]) == (0, 0)
    said = [line for line in run.logs[role].splitlines() if "pagewitness" in line]
    missing = f"missing: {', '.join(BLIND[run.version])}"
    assert [line for line in said if "hook points are on" not in line and not line.endswith(missing)] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_leg_is_complete(run: Run, role: str) -> None:
    legs = run.legs(role).values()
    assert len(legs) == len(run.answers)
    for facts in legs:
        assert [fact.leg.ordinal for fact in facts if fact.leg] == list(range(1, len(facts) + 1))
        assert facts[-1].values["pagewitness.leg.facts"] == len(facts)


@pytest.mark.parametrize("role", ROLES)
def test_an_ordinary_request(run: Run, role: str) -> None:
    assert run.answers["ordinary"].decode.status == 200
    assert run.story(role, "ordinary") == ordinary(run, role)


def test_the_two_legs_of_a_request_join_on_room_session_and_destination(run: Run) -> None:
    reserved = run.only("decode", "ordinary", "transfer:reserved")
    received = run.only("prefill", "ordinary", "transfer:destination")
    for name in ("room", "transfer.session", "transfer.destination", "page.count", "prefix.tokens", "slot"):
        assert reserved[name] == received[name], name


def test_what_prefill_queued_covers_what_decode_reserved(run: Run) -> None:
    reserved = run.only("decode", "ordinary", "transfer:reserved")
    queued = run.only("prefill", "ordinary", "transfer:queued")
    assert queued["page.count"] == queued["sender.pages"] == reserved["page.count"]
    assert queued["chunk.tokens"] == reserved["prompt.tokens"] == run.answers["ordinary"].decode.meta["prompt_tokens"]


def test_decode_reads_one_position_further_each_step(run: Run) -> None:
    prompt_tokens = run.answers["ordinary"].decode.meta["prompt_tokens"]
    first, last = (run.only("decode", "ordinary", f"read:{phase}") for phase in ("first", "last"))
    assert first["read.tokens"] == prompt_tokens + 1
    assert last["read.tokens"] == prompt_tokens + 19  # 20 tokens, the first of them from prefill
    assert first["row"] == last["row"]


def test_a_leg_wrote_its_own_part_of_the_pages_it_held(run: Run) -> None:
    prompt_tokens = run.answers["ordinary"].decode.meta["prompt_tokens"]
    computed = run.only("prefill", "ordinary", "release:immediate")
    decoded = run.only("decode", "ordinary", "release:immediate")
    assert (computed["written.start"], computed["written.end"]) == (0, prompt_tokens)
    assert (decoded["written.start"], decoded["written.end"]) == (prompt_tokens, prompt_tokens + 19)
    assert len(decoded["pages"]) == -(-(prompt_tokens + 19) // 16)
    reserved = run.only("decode", "ordinary", "transfer:reserved")["pages"]
    assert list(decoded["pages"])[: len(reserved)] == list(reserved)


def test_an_answer_of_one_token_reads_nothing_on_decode(run: Run) -> None:
    assert run.story("decode", "one-token") == [word for word in ordinary(run, "decode") if not word.startswith("read")]


def test_a_prompt_that_prefill_still_has_is_not_computed_again(run: Run) -> None:
    again = run.only("prefill", "again", "release:immediate")
    assert again["prefix.tokens"] == again["written.start"] == 96  # whole pages of a prompt of 100
    assert again["written.end"] == 100
    assert run.only("prefill", "again", "end:finished")["queued.tokens"] == 100  # but it is sent again


def test_the_tenant_is_the_vouched_one_or_nobody(run: Run) -> None:
    for role in ROLES:
        vouched, unvouched = run.leg(role, "ordinary")[0].leg, run.leg(role, "unvouched")[0].leg
        assert vouched is not None
        assert unvouched is not None
        assert (len(vouched.tenant), vouched.tenant_key) == (32, "lab-p")
        assert unvouched.tenant == "unattributed"


def test_a_client_that_hangs_up_leaves_a_complete_leg(run: Run) -> None:
    assert run.answers["hung-up"].decode.status == 0
    assert run.story("decode", "hung-up")[-3:] == ["release:immediate", "response:abort", "end:aborted"]


@pytest.mark.parametrize("role", ROLES)
def test_no_client_text_is_in_the_ring(run: Run, role: str) -> None:
    """The marker stands in every request id, in prompts and in a grammar that the engine quotes in its message."""
    assert MARKER in run.logs[role], "the engine itself never saw the marker"
    assert MARKER.encode() not in run.raw[role]


# ---------------------------------------------------------------------- the incident


def test_vulnerable_a_rejected_prompt_goes_on_as_a_placeholder(vulnerable: Run) -> None:
    assert vulnerable.answers["oversized"].decode.status == 200
    assert vulnerable.story("prefill", "oversized") == ["admission:rejected", *ORDINARY["prefill"][1:]]
    rejected = vulnerable.only("prefill", "oversized", "admission:rejected")
    assert (rejected["tokens.need"], rejected["input.limit"]) == (1500, 1018)
    assert (rejected["admission.reason"], rejected["http.response.status_code"]) == ("input_too_long", 400)
    queued = vulnerable.only("prefill", "oversized", "transfer:queued")
    assert (queued["page.count"], queued["chunk.tokens"], queued["sender.pages"]) == (1, 1, 1)


def test_vulnerable_decode_commits_and_reads_what_nobody_sent(vulnerable: Run) -> None:
    assert vulnerable.story("decode", "oversized") == ORDINARY["decode"]
    assert vulnerable.only("decode", "oversized", "transfer:reserved")["page.count"] == 94
    assert vulnerable.only("decode", "oversized", "transfer:committed")["prompt.tokens"] == 1500
    assert vulnerable.only("decode", "oversized", "read:first")["read.tokens"] == 1501
    released = vulnerable.only("decode", "oversized", "release:immediate")
    assert (len(released["pages"]), released["written.start"], released["written.end"]) == (95, 1500, 1507)


def test_vulnerable_a_failing_grammar_is_sent_and_committed_and_delivers_nothing(vulnerable: Run) -> None:
    assert vulnerable.answers["grammar"].decode.status == 400
    assert vulnerable.story("prefill", "grammar") == ["admission:rejected", *ORDINARY["prefill"][1:]]
    assert vulnerable.story("decode", "grammar") == [
        "admission:rejected", "transfer:reserved", "transfer:committed", "release:immediate", "response:abort",
        "end:rejected",
    ]  # fmt: skip
    assert vulnerable.only("decode", "grammar", "response:abort")["tokens_delivered"] == 0


def test_fixed_a_rejected_prompt_is_turned_away_and_never_sent(fixed: Run) -> None:
    assert fixed.answers["oversized"].prefill.status == 400
    assert "transfer:queued" not in fixed.story("prefill", "oversized")
    assert fixed.only("prefill", "oversized", "admission:rejected")["tokens.need"] == 1500


def test_newer_a_rejected_prompt_ends_at_once(newer: Run) -> None:
    assert newer.story("prefill", "oversized") == TURNED_AWAY


def test_newer_decode_waits_for_it_and_gives_up(newer: Run) -> None:
    assert newer.answers["oversized"].decode.status == 500
    story = ["admission:admitted", "transfer:reserved", "response:abort", "release:deferred", "end:failed"]
    assert newer.story("decode", "oversized") == story
    released = newer.only("decode", "oversized", "release:deferred")
    assert (len(released["pages"]), released["written.start"], released["written.end"]) == (94, 1500, 1500)


@pytest.mark.parametrize("role", ROLES)
def test_newer_a_failing_grammar_is_turned_away_on_both_sides(newer: Run, role: str) -> None:
    assert newer.story(role, "grammar") == TURNED_AWAY
    assert newer.only(role, "grammar", "admission:rejected")["admission.reason"] == "grammar"
