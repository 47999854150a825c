"""The captures in the repository: what they must show, read from their files alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.conventions import CONTRACT_VERSION
from engine_hooks.identity import mint_salt, parse_keys
from lab.captures.capture import Capture
from lab.captures.compare import true_recipients
from lab.engine import keys
from lab.engine.capture import default_folder
from lab.engine.paths import REPOSITORY
from lab.engine.servers import EMITTER_PREFIX
from lab.engine.stories import STORIES
from lab.engine.tenants import TENANTS

FOLDER = REPOSITORY / "lab" / "captures"
LEAK, FIXED = FOLDER / "sglang-0.5.19-oversized", FOLDER / "sglang-0.5.23-oversized"
KEPT = [default_folder(story, version) for story in STORIES.values() for version in story.versions]
CAPTURES = pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)


def affected(capture: Capture) -> list[dict[str, Any]]:
    return [response for response in capture.truth["responses"] if response["reads"]]


def donors(response: dict[str, Any], via: str) -> set[str]:
    return {read["owner_tenant"] for read in response["reads"] if read["via"] == via}


@CAPTURES
def test_it_was_recorded_under_the_contract_of_this_version(folder: Path) -> None:
    assert Capture.load(folder).manifest["hooks"]["contract"] == CONTRACT_VERSION


def test_there_is_a_capture_of_each_story_and_no_other() -> None:
    assert {folder for folder in FOLDER.iterdir() if folder.name.startswith("sglang-")} == set(KEPT)


def test_all_together_are_smaller_than_four_megabytes() -> None:
    assert sum(path.stat().st_size for folder in KEPT for path in folder.iterdir()) < 4_000_000


@CAPTURES
def test_it_is_smaller_than_a_megabyte(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000


@CAPTURES
def test_both_nodes_and_the_agent_posted(folder: Path) -> None:
    capture = Capture.load(folder)
    posted = Counter(name.removeprefix(f"{EMITTER_PREFIX}/").split("-")[0] for name in capture.emitters())
    ranks = capture.manifest["ranks"]
    assert posted == {"agent": 1, "decode": ranks, "prefill": ranks}


def mac_of(tenant: str) -> str:
    """What vouches for a tenant's request in its `cache_salt`."""
    (pseudonym_key,), (mac_key,) = parse_keys(keys.PSEUDONYM_KEY), parse_keys(keys.MAC_KEY)
    return mint_salt(tenant, pseudonym_key=pseudonym_key, mac_key=mac_key).rpartition(".")[2]


@CAPTURES
def test_it_holds_no_text_and_no_credential(folder: Path) -> None:
    capture = Capture.load(folder)
    said = b"".join(body.message().SerializeToString() for body in capture.bodies)
    said += b"".join(path.read_bytes() for path in folder.glob("*.json"))
    forbidden = [tenant.marker for tenant in TENANTS] + [mac_of(tenant.name) for tenant in TENANTS]
    forbidden += ["[request-", "quick brown", "Bearer"]
    assert [word for word in forbidden if word.encode() in said] == []


@CAPTURES
def test_truth_and_traffic_speak_of_the_same_requests(folder: Path) -> None:
    capture = Capture.load(folder)
    sent = {(request["rid"], request["tenant"]) for request in capture.traffic["requests"]}
    assert {(request["rid"], request["tenant"]) for request in capture.truth["requests"]} == sent
    assert {(response["rid"], response["tenant"]) for response in capture.truth["responses"]} <= sent


@CAPTURES
def test_its_manifest_names_no_folder_of_a_machine(folder: Path) -> None:
    servers = Capture.load(folder).manifest["servers"]
    assert all(command.startswith("$LAB/venv/bin/python ") for command in servers.values())


def test_on_the_vulnerable_engine_two_tenants_read_other_tenants_kv() -> None:
    first, second = affected(Capture.load(LEAK))
    assert first["tenant"] != second["tenant"]
    for response in (first, second):
        assert donors(response, "stale_page") - {response["tenant"]}


def test_one_donor_tenant_is_found_only_in_the_tail_of_a_transferred_page() -> None:
    found = [donors(r, "transfer_tail") - donors(r, "stale_page") for r in affected(Capture.load(LEAK))]
    assert any(found)


def test_the_second_victim_read_pages_of_the_first() -> None:
    first, second = affected(Capture.load(LEAK))
    assert first["rid"] in {read["owner_rid"] for read in second["reads"]}


def test_the_client_saw_another_tenants_marker_in_just_these_answers() -> None:
    capture = Capture.load(LEAK)
    echoing = {request["rid"] for request in capture.traffic["requests"] if request["foreign_markers"]}
    assert echoing == true_recipients(capture.truth)
    assert all(request["status"] == 200 for request in capture.traffic["requests"])


def test_on_the_fixed_engine_nothing_is_affected_and_the_oversized_prompts_are_refused() -> None:
    capture = Capture.load(FIXED)
    assert true_recipients(capture.truth) == set()
    refused = [(r["prefill_status"], r["status"]) for r in capture.traffic["requests"] if r["oversized"]]
    assert refused == [(400, 500), (400, 500)]
