"""Colliding rooms and request ids on the real engine: what its memory says, what the facts say, what is judged.

Two tenants use one bootstrap room at once, as clients can. The engine keeps its transfers by room, so one tenant's KV
reaches the other's pages: that is the truth that no verdict may call clean, and no join may explain away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from detectors.queries import Row
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from lab.engine import truth, truth_records
from lab.engine.agent_process import AgentProcess
from lab.engine.client import Client, PairAnswer, Sent
from lab.engine.digests import rid_digest
from lab.engine.pair import Pair
from lab.engine.recording_receiver import RecordingReceiver
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import Ask, prompt
from lab.engine.truth import ResponseTruth
from tests.engine_hooks.sglang_plugin.on_engine import salt_of
from tests.support.stores import fresh_store

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(400)]

VERSION = "0.5.19"
COLLISIONS = 3
PATIENCE = 12.0
"""Seconds: longer than the pair's waiting timeout, which ends a request whose transfer another one took."""


@dataclass
class Played:
    """What the clients got, what memory held, and what was judged. Rows are by name of the request."""

    answers: dict[str, PairAnswer] = field(default_factory=dict)
    truths: dict[str, ResponseTruth] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    legs: dict[str, list[str]] = field(default_factory=dict)  # uids of the prefill legs with the id of the request


def body(tenant: str, number: int, rid: str) -> dict[str, Any]:
    return {
        "text": prompt(Ask(tenant, 80), number),
        "rid": rid,
        "cache_salt": salt_of(tenant),
        "sampling_params": {"max_new_tokens": 24, "temperature": 0, "ignore_eos": True},
    }


def ask_all(client: Client, played: Played) -> None:
    """Every request's id is its name; none is the beginning of another."""

    def send(name: str, tenant: str, number: int, room: int, rid: str = "") -> Sent:
        return client.send(body(tenant, number, rid or name), room=room, timeout=PATIENCE)

    def wait(**pending: Sent) -> None:
        played.answers |= {name.replace("_", "-"): future.result() for name, future in pending.items()}

    wait(plain_=send("plain-", "acme", 0, 11))
    for n in range(COLLISIONS):  # one room after the other: several at once hang the pair for good
        one, other = send(f"one{n}-", "acme", 10 + n, 1000 + n), send(f"other{n}-", "zenith", 20 + n, 1000 + n)
        wait(**{f"one{n}_": one, f"other{n}_": other})
    wait(same_rid_=send("same-rid-", "acme", 30, 2000), same_rid_again_=send("same-rid-", "zenith", 31, 2001))
    wait(later_=send("later-", "acme", 40, 3000))
    wait(later_again_=send("later-", "zenith", 41, 3000))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    run = RunFolder(tmp_path_factory.mktemp("identities"))
    run.make()
    found = Played()
    with RecordingReceiver() as receiver, AgentProcess(run, receiver.url, receiver.token) as agent:
        with Pair(PairSettings(VERSION, truth=True), run) as pair, pair.client() as client:
            ask_all(client, found)
        agent.wait_drained()
        agent.stop()
        judge(found, [one.message().SerializeToString() for one in receiver.bodies()], run.truth)
    return found


def judge(found: Played, bodies: list[bytes], memory: Path) -> None:
    names = {rid_digest(name): name for name in found.answers}
    found.truths = {response.rid: response for response in truth.join(truth_records.load(memory)).responses}
    with fresh_store() as store:
        for one in bodies:
            store.insert_otlp(one)
        handle = store.handle()
        Runner(handle, DetectionSettings()).run_once()
        for row in handle.rows("SELECT * FROM responses ORDER BY started"):
            found.rows.setdefault(names[row["rid"]], []).append(row)
        for row in handle.rows("SELECT * FROM findings WHERE rule = 'identity_reuse'"):
            found.findings.setdefault(row["response_uid"], []).append(row["variant"])
        sql = "SELECT DISTINCT rid, uid FROM facts WHERE rid != '' AND emitter LIKE '%/prefill-%'"
        for row in handle.rows(sql):
            found.legs.setdefault(names[row["rid"]], []).append(row["uid"])


def test_the_engine_really_gives_one_tenants_kv_to_the_other(played: Played) -> None:
    mixed = [
        (name, slot.owner)
        for name, response in played.truths.items()
        for slot in response.foreign
        if name.startswith(("one", "other"))
    ]
    assert mixed, "no collision went wrong this time: the test has nothing to say"
    assert all(name.startswith("one") != owner.startswith("one") for name, owner in mixed)


def test_no_response_that_shared_its_room_is_clean_and_each_is_told(played: Played) -> None:
    for n in range(COLLISIONS):
        for name in (f"one{n}-", f"other{n}-"):
            (row,) = played.rows[name]
            assert row["verdict"] == "unknown", name
            assert "ambiguous_join" in row["reasons"], name
            assert played.findings[row["response_uid"]] == ["room_live_twice"], name


def test_no_leg_is_ever_joined_to_another_requests(played: Played) -> None:
    for name, rows in played.rows.items():
        for row in rows:
            assert row["prefill_uid"] in ("", *played.legs[name]), name


def test_what_read_nothing_foreign_in_a_room_of_its_own_is_clean(played: Played) -> None:
    (row,) = played.rows["plain-"]
    assert row["verdict"] == "clean", row["reasons"]
    assert not played.truths["plain-"].foreign


def test_a_room_and_id_used_again_after_a_clean_close_are_clean_both_times(played: Played) -> None:
    assert [row["verdict"] for row in played.rows["later-"]] == ["clean", "clean"]
    assert len({row["prefill_uid"] for row in played.rows["later-"]}) == 2
    assert len({row["tenant"] for row in played.rows["later-"]}) == 2


def test_an_id_repeated_at_once_is_refused_by_the_engine_or_told(played: Played) -> None:
    """SGLang 0.5.19 answers 400 to one of the two; a response that got through is joined to its own leg."""
    statuses = sorted(played.answers[name].decode.status for name in ("same-rid-", "same-rid-again-"))
    rows = played.rows["same-rid-"]
    assert (statuses == [200, 400]) == (len(rows) == 1)
    assert all(row["verdict"] in ("clean", "unknown") for row in rows)
