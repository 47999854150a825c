"""Retraction on the real engine: six answers that grow beyond decode's pool, so that some wait in host memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.facts import Fact
from lab.engine.client import Client, PairAnswer
from lab.engine.pair import Pair
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import Ask, prompt
from tests.engine_hooks.sglang_plugin.on_engine import Run, all_ended, ask, read, rid_of, salt_of, wait
from tests.engine_hooks.sglang_plugin.support import word_of

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(500)]

REQUESTS, PROMPT, ANSWER, POOL = 6, 60, 150, 512
"""Their final 1,260 tokens are more than twice what the pool holds."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return play(tmp_path_factory.mktemp("engine-retraction"))


def play(folder: Path) -> Run:
    run, files = Run("0.5.19"), RunFolder(folder)
    few = ("--num-reserved-decode-tokens", "16")  # decode admits more than it can carry to the end
    with Pair(PairSettings(run.version, decode_tokens=POOL, arguments=few), files) as pair, pair.client() as client:
        with ThreadPoolExecutor(REQUESTS) as pool:
            answers = list(pool.map(lambda number: one(client, number), range(REQUESTS)))
        run.answers = {f"request-{number}": answer for number, answer in enumerate(answers)}
        wait(lambda: all_ended(files.rings))
    read(run, files)
    return run


def one(client: Client, number: int) -> PairAnswer:
    body = {
        "rid": rid_of(f"request-{number}"),
        "text": prompt(Ask("acme", PROMPT), number),
        "cache_salt": salt_of("acme"),
        "sampling_params": {"temperature": 0, "ignore_eos": True, "max_new_tokens": ANSWER},
    }
    return ask(client, body, timeout=120.0)


def named(fact: Fact) -> dict[str, Any]:
    return {name.removeprefix("pagewitness."): value for name, value in fact.values.items()}


def legs(run: Run, *, resumed: bool) -> list[list[Fact]]:
    """Legs on decode that go on where a retracted one ended, or those that do not."""
    return [facts for facts in run.legs("decode").values() if ("leg.resumes" in named(facts[0])) is resumed]


def test_every_answer_came_and_some_requests_were_retracted(run: Run) -> None:
    assert [answer.decode.status for answer in run.answers.values()] == [200] * REQUESTS
    assert legs(run, resumed=True)


def test_every_leg_is_complete(run: Run) -> None:
    assert (run.errors["decode"], run.drops["decode"]) == (0, 0)
    for facts in run.legs("decode").values():
        assert [fact.leg.ordinal for fact in facts if fact.leg] == list(range(1, len(facts) + 1))


def test_a_resumed_leg_names_a_leg_of_the_same_request_that_was_retracted(run: Run) -> None:
    found = run.legs("decode")
    for facts in legs(run, resumed=True):
        admission = named(facts[0])
        before = found[admission["leg.resumes"]]
        assert named(before[0])["rid"] == admission["rid"]
        assert word_of(before[-1]) == "end:retracted"


def test_each_retracted_leg_is_resumed_once(run: Run) -> None:
    retracted = [uid for uid, facts in run.legs("decode").items() if word_of(facts[-1]) == "end:retracted"]
    assert sorted(retracted) == sorted(named(facts[0])["leg.resumes"] for facts in legs(run, resumed=True))


def test_what_goes_to_host_memory_comes_back_and_is_all_that_the_leg_had_read(run: Run) -> None:
    found = run.legs("decode")
    for facts in legs(run, resumed=True):
        before = found[named(facts[0])["leg.resumes"]]
        (store,) = [named(fact) for fact in before if word_of(fact) == "share:store"]
        (load,) = [named(fact) for fact in facts if word_of(fact) == "share:load"]
        (written,) = [named(fact) for fact in facts if word_of(fact) == "write:load"]
        assert store["shared.tokens"] == load["shared.tokens"] == written["written.end"]
        assert (load["storage"], load["key.composition"], written["written.start"]) == ("host", ("request",), 0)


def test_a_leg_that_is_retracted_says_so_when_it_gives_its_pages_up(run: Run) -> None:
    for facts in run.legs("decode").values():
        (release,) = [word_of(fact) for fact in facts if word_of(fact).startswith("release")]
        assert (release == "release:retract") is (word_of(facts[-1]) == "end:retracted")
