"""Exact tier: every forward, with the rows that took part and how far each read and wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake


@pytest.fixture
def exact(tmp_path: Path) -> Rig:
    return Rig(tmp_path, tier="exact")


def running(rig: Rig, name: str, row: int, tokens: int) -> fake.Req:
    req = rig.admit(fake.Req(name))
    req.kv = fake.Kv(row, tokens, tokens)
    return req


def run(rig: Rig, batch: Any) -> None:
    rig.exact_steps.after_run_batch(None, rig.scheduler, batch)


def test_a_decode_step_names_each_row_and_its_length(exact: Rig) -> None:
    one, other = running(exact, "one", 3, 11), running(exact, "other", 5, 21)
    run(exact, fake.decode_batch((one, 11), (other, 21)))
    step = exact.only("step:decode")
    assert {name: list(step[f"step.{name}"]) for name in ("rows", "row_generations", "starts", "ends")} == {
        "rows": [3, 5], "row_generations": [5, 5], "starts": [10, 20], "ends": [11, 21],
    }  # fmt: skip


def test_the_control_tiers_facts_are_there_as_well(exact: Rig) -> None:
    req = running(exact, "one", 3, 11)
    run(exact, fake.decode_batch((req, 11)))
    assert exact.story() == ["admission:admitted", "read:first"]


def test_an_extend_step_says_what_each_leg_wrote(exact: Rig) -> None:
    req = running(exact, "one", 3, 10)
    run(exact, fake.extend_batch((req, 4, 10)))
    step, wrote = exact.only("step:extend"), exact.only("write:prefill")
    assert (list(step["step.starts"]), list(step["step.ends"])) == ([4], [10])
    assert (wrote["written.start"], wrote["written.end"]) == (4, 10)


def test_a_batch_that_decode_builds_from_a_transfer_ran_nothing(exact: Rig) -> None:
    req = running(exact, "one", 3, 10)
    batch = fake.extend_batch((req, 0, 10))
    batch.forward_mode = fake.ForwardMode.PREBUILT
    run(exact, batch)
    assert exact.every("step:extend") == exact.every("write:prefill") == []


def test_the_end_of_a_leg_says_in_how_many_steps_it_took_part(exact: Rig) -> None:
    req = running(exact, "one", 3, 11)
    for tokens in (11, 12, 13):
        run(exact, fake.decode_batch((req, tokens)))
    req.kv = fake.Kv(3, 13, 13)
    exact.finish(req)
    assert exact.only("end:finished")["steps"] == 3


def test_generations_on_a_device_are_left_alone(exact: Rig) -> None:
    exact.scheduler.req_to_token_pool.req_generation = fake.Tensor([5] * 8, "cuda")
    req = running(exact, "one", 3, 11)
    run(exact, fake.decode_batch((req, 11)))
    assert list(exact.only("step:decode")["step.row_generations"]) == []


def test_the_control_tier_says_no_totals_of_the_exact_one(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.stream_abort(req)
    assert not {"steps", "acquired.pages"} & set(decode.only("end:aborted"))
