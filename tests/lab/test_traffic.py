"""The scripted requests: exact lengths, one marker a tenant, vouched-for tenants, outcomes without a word of text."""

from __future__ import annotations

import re
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

import pytest

from engine_hooks.identity import parse_keys, pseudonym, verify_salt
from lab.engine import keys
from lab.engine.client import Answer, PairAnswer, Sent
from lab.engine.stories.oversized import FIRST_VICTIM, SECOND_VICTIM, oversized_story
from lab.engine.tenants import BY_NAME, OPENINGS, TENANTS, count_markers, opening
from lab.engine.traffic import FAKE_HOST, Ask, Sender, outcome_of, prompt, rid_of, room_of

PREFILL_POOL = 1024
DECODE_POOL = 2048
DECODE_RESERVE = 512


def tokens(text: str) -> list[str]:
    """The text as the echo model counts it: a word in brackets is one token, any other character too."""
    return re.findall(r"\[[a-z0-9-]+\]|.", text)


@pytest.mark.parametrize("length", [1, 2, 16, 160, 1500])
def test_a_prompt_has_exactly_the_tokens_that_were_asked_for(length: int) -> None:
    assert len(tokens(prompt(Ask("acme", length), 0))) == length


def test_a_prompt_holds_its_tenants_marker_and_no_other() -> None:
    assert count_markers(prompt(Ask("orion", 160), 7)).keys() == {"orion"}


def test_an_oversized_prompt_holds_no_marker() -> None:
    assert count_markers(prompt(Ask("orion", 1500, oversized=True), 7)) == {}


def test_no_two_prompts_of_a_run_begin_alike() -> None:
    assert len({tokens(prompt(Ask("acme", 16), number))[0] for number in range(OPENINGS)}) == OPENINGS


def test_there_is_an_opening_for_each_request_of_the_story() -> None:
    assert len(oversized_story()) <= OPENINGS
    with pytest.raises(ValueError, match=f"the model knows {OPENINGS}"):
        opening(OPENINGS)


def test_the_markers_are_those_of_ten_different_tenants() -> None:
    assert len({tenant.marker for tenant in TENANTS}) == len(BY_NAME) == len(TENANTS) == 10


def test_the_storys_oversized_prompts_fit_decode_alone() -> None:
    big = [ask for ask in oversized_story() if ask.oversized]
    assert [ask.tenant for ask in big] == [FIRST_VICTIM, SECOND_VICTIM]
    assert all(PREFILL_POOL < ask.prompt_tokens <= DECODE_POOL - DECODE_RESERVE for ask in big)


def test_everything_else_of_the_story_fits_both_pools() -> None:
    assert all(ask.prompt_tokens < PREFILL_POOL for ask in oversized_story() if not ask.oversized)


def test_no_request_id_is_a_prefix_of_another() -> None:
    rids = [rid_of("run", number) for number in (0, 1, 10, 100)]
    assert len({len(rid) for rid in rids}) == 1


def test_a_room_is_its_requests_own_and_fits_63_bits() -> None:
    rooms = {room_of(rid_of("run", number)) for number in range(100)}
    assert len(rooms) == 100
    assert all(0 <= room < 1 << 63 for room in rooms)


class RecordingClient:
    """Takes a request and answers it at once."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def send(self, body: dict[str, Any], *, room: int, roles: tuple[str, ...]) -> Sent:
        self.bodies.append(body | {"room": room, "roles": roles})
        future: Future[dict[str, Answer]] = Future()
        future.set_result({role: Answer(200, {}) for role in roles})
        return Sent(future, lambda: None)


def sent(ask: Ask) -> dict[str, Any]:
    """What reaches the client for it."""
    client = RecordingClient()
    Sender(client, "run").send(ask)  # type: ignore[arg-type]
    return client.bodies[0]


def test_a_request_is_vouched_for_as_its_tenants() -> None:
    identity = verify_salt(sent(Ask("acme", 16))["cache_salt"], parse_keys(keys.MAC_KEY))
    assert identity is not None
    assert identity.tenant.hex() == pseudonym(parse_keys(keys.PSEUDONYM_KEY)[0], "acme")


def test_an_unsalted_request_is_not_vouched_for() -> None:
    assert "cache_salt" not in sent(Ask("acme", 16, salted=False))


def test_a_fake_request_goes_to_decode_alone_and_names_the_engines_own_address() -> None:
    body = sent(Ask("acme", 16, fake=True))
    assert (body["roles"], body["bootstrap_host"]) == (("decode",), FAKE_HOST)


def test_a_node_that_was_not_asked_has_no_status() -> None:
    client = RecordingClient()
    outcome = Sender(client, "run").send(Ask("acme", 16, fake=True))  # type: ignore[arg-type]
    assert (outcome.prefill_status, outcome.status, outcome.ordinary) == (0, 200, False)


def test_requests_with_one_opening_have_one_text_as_far_as_each_goes() -> None:
    longer, shorter = prompt(Ask("acme", 40, opening=9), 1), prompt(Ask("zenith", 20, opening=9), 2)
    assert longer.startswith(shorter)


def answered(text: str, status: int = 200) -> PairAnswer:
    meta = {"completion_tokens": 3, "finish_reason": {"type": "length"}}
    return PairAnswer(Answer(200, {}), Answer(status, {"text": text, "meta_info": meta}))


def test_markers_of_others_in_an_answer_are_counted_by_tenant() -> None:
    acme, orion = BY_NAME["acme"].marker, BY_NAME["orion"].marker
    seen = outcome_of(Ask("acme", 16), "r", answered(f"{acme}{orion}x{orion}"))
    assert (seen.own, seen.echoed) == (1, {"orion": 2})


def test_an_outcome_holds_no_text_of_the_answer() -> None:
    seen = outcome_of(Ask("acme", 16), "r", answered("hush" + BY_NAME["orion"].marker))
    assert "hush" not in str(asdict(seen))
    assert BY_NAME["orion"].marker not in str(asdict(seen))


def test_no_answer_is_status_zero() -> None:
    nothing = PairAnswer(Answer(400, {"error": {}}), Answer(0, "TimeoutError()"))
    seen = outcome_of(Ask("acme", 16), "r", nothing)
    assert (seen.prefill_status, seen.status, seen.finish, seen.output_tokens) == (400, 0, "", 0)
