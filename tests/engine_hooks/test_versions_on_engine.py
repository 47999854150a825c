"""Every engine version that the hooks know and the lab can install: what attaches, and ordinary traffic on each.

The two versions of `test_plugin_on_engine` have their traffic there. Needs `python -m lab.engine install --all`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.sglang_plugin.table import VERSIONS
from lab.engine.install import ALL_VERSIONS, MORE_OVERLAYS
from lab.engine.matrix import environment, survey
from lab.engine.paths import LabPaths
from tests.engine_hooks.sglang_plugin.on_engine import MARKER, ROLES, Run, tier_of

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(900)]

BLIND = {
    "0.5.11": ["alarm", "transfer.landed"],
    "0.5.15": ["transfer.landed"],
    "0.5.19": ["transfer.landed"],
    "0.5.20": [],
    "0.5.22": [],
    "0.5.23": [],
}
"""Facts that no hook point of a version supplies. The engine has no alarms of its own before 0.5.15, and says of no
transfer that it has landed before 0.5.20."""


# ---------------------------------------------------------------------- what attaches


@pytest.fixture(scope="module")
def paths() -> LabPaths:
    return LabPaths.from_environment()


@cache
def surveyed(version: str, tier: str = "exact") -> dict[str, Any]:
    """The survey of a version, made when it is first asked for: each imports an engine."""
    return survey(version, LabPaths.from_environment(), tier)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_hook_point_of_a_version_attaches_and_what_is_blind_is_listed(version: str) -> None:
    found = surveyed(version)
    assert {hook["name"]: hook["problem"] for hook in found["hooks"] if hook["problem"]} == {}
    assert (found["known"], found["attached"]) == (True, len(found["hooks"]))
    assert found["missing"] == BLIND[version]


def test_an_engine_of_another_version_gets_what_fits_it_and_says_so(paths: LabPaths) -> None:
    """The oldest engine with a version that nobody knows: its own hook points are found all the same."""
    found = run_survey("0.5.11", paths, "99.0.0")
    assert not found["known"]
    assert [hook["name"] for hook in found["hooks"]] == [hook["name"] for hook in surveyed("0.5.11")["hooks"]]
    assert found["missing"] == [*BLIND["0.5.11"], "version.unknown"]


def run_survey(version: str, paths: LabPaths, says: str) -> dict[str, Any]:
    """What the survey finds if the engine said this of its version."""
    program = f"import json, sys; from engine_hooks.sglang_plugin.survey import survey; \
        print(chr(10) + json.dumps(survey({says!r}, 'exact', 'mooncake')))"
    command = [str(paths.python), "-c", program]
    done = subprocess.run(command, env=environment(version, paths), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_doctor_says_the_same_in_the_engines_environment(paths: LabPaths) -> None:
    command = [str(paths.python), "-m", "engine_hooks.cli", "doctor", "--offline", "--json"]
    done = subprocess.run(command, env=environment("0.5.15", paths), capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["engine"]["missing"] == BLIND["0.5.15"]
    assert found["exit"] == done.returncode == 1  # no evidence key, and the lab's engine has no agent beside it
    assert {check["name"]: check["status"] for check in found["checks"]}["facts"] == "blind"


# ---------------------------------------------------------------------- traffic


VULNERABLE = [version for version in MORE_OVERLAYS if version in ("0.5.11", "0.5.15")]
FIXED = [version for version in MORE_OVERLAYS if version not in VULNERABLE]


@pytest.fixture(params=MORE_OVERLAYS)
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    return runs(request.param)


@pytest.mark.parametrize("role", ROLES)
def test_what_is_on_in_a_running_engine_is_what_the_survey_said(run: Run, role: str) -> None:
    found = surveyed(run.version, tier_of(run.version))
    assert list(run.config(role)["hooks.attached"]) == sorted(hook["name"] for hook in found["hooks"])
    assert list(run.config(role)["hooks.missing"]) == found["missing"]


@pytest.mark.parametrize("role", ROLES)
def test_no_hook_failed_and_no_fact_was_dropped(run: Run, role: str) -> None:
    assert (run.errors[role], run.drops[role]) == (0, 0)
    assert "failed with" not in "".join(line for line in run.logs[role].splitlines() if "pagewitness" in line)


@pytest.mark.parametrize("role", ROLES)
def test_every_leg_is_complete(run: Run, role: str) -> None:
    legs = run.legs(role).values()
    assert len(legs) == len(run.answers)
    for facts in legs:
        assert [fact.leg.ordinal for fact in facts if fact.leg] == list(range(1, len(facts) + 1))
        assert facts[-1].values["pagewitness.leg.facts"] == len(facts)


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


def test_a_leg_wrote_its_own_part_of_the_pages_it_held(run: Run) -> None:
    prompt_tokens = run.answers["ordinary"].decode.meta["prompt_tokens"]
    computed = run.only("prefill", "ordinary", "release:immediate")
    decoded = run.only("decode", "ordinary", "release:immediate")
    assert (computed["written.start"], computed["written.end"]) == (0, prompt_tokens)
    assert (decoded["written.start"], decoded["written.end"]) == (prompt_tokens, prompt_tokens + 19)
    assert run.only("decode", "ordinary", "read:last")["read.tokens"] == prompt_tokens + 19


def test_the_tenant_is_the_vouched_one_or_nobody(run: Run) -> None:
    for role in ROLES:
        vouched, unvouched = run.leg(role, "ordinary")[0].leg, run.leg(role, "unvouched")[0].leg
        assert vouched is not None
        assert unvouched is not None
        assert vouched.tenant_key == "lab-p"
        assert unvouched.tenant == "unattributed"


def test_a_client_that_hangs_up_leaves_a_complete_leg(run: Run) -> None:
    assert run.story("decode", "hung-up")[-2:] == ["response:abort", "end:aborted"]


@pytest.mark.parametrize("role", ROLES)
def test_no_client_text_is_in_the_ring(run: Run, role: str) -> None:
    assert MARKER in run.logs[role], "the engine itself never saw the marker"
    assert MARKER.encode() not in run.raw[role]


@pytest.mark.parametrize("version", VULNERABLE)
def test_before_0_5_20_a_rejected_prompt_goes_on_as_a_placeholder(version: str, runs: Callable[[str], Run]) -> None:
    """The incident: decode is told nothing, takes what it reserved for filled, and answers from it."""
    run = runs(version)
    assert run.answers["oversized"].decode.status == 200
    queued = run.only("prefill", "oversized", "transfer:queued")
    assert (queued["page.count"], queued["chunk.tokens"], queued["sender.pages"]) == (1, 1, 1)
    assert run.only("decode", "oversized", "transfer:reserved")["page.count"] == 94
    assert run.only("decode", "oversized", "read:first")["read.tokens"] == 1501


@pytest.mark.parametrize("version", FIXED)
def test_from_0_5_20_on_a_rejected_prompt_is_turned_away_and_never_sent(
    version: str, runs: Callable[[str], Run]
) -> None:
    run = runs(version)
    assert run.answers["oversized"].prefill.status == 400
    assert "transfer:queued" not in run.story("prefill", "oversized")


def test_the_versions_of_the_lab_are_versions_of_the_table() -> None:
    assert {tuple(map(int, version.split("."))) for version in ALL_VERSIONS} <= set(VERSIONS)


def test_the_hooks_of_the_lab_are_those_of_this_tree(paths: LabPaths) -> None:
    assert (paths.hooks / "engine_hooks").resolve() == Path(__file__).resolve().parents[2] / "engine_hooks"
