"""The soak: fleets that anybody can have again by their numbers, and no answer about them that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lab.cli import app
from lab.fleet import faults
from lab.fleet.held import Held
from lab.soak.draw import SEEN, draw
from lab.soak.run import run_one
from tests.repo.tree import ROOT
from tests.support.stores import fresh_store


def test_a_fleet_is_what_its_seed_and_number_make_it() -> None:
    assert draw(3, 17) == draw(3, 17)
    assert draw(3, 17).spec != draw(3, 18).spec
    assert draw(3, 17).spec.seed != draw(4, 17).spec.seed


def test_no_two_fleets_of_a_store_have_a_name_or_a_time_in_common() -> None:
    specs = [draw(1, number).spec for number in range(10)]
    assert len({spec.name for spec in specs}) == len({spec.start for spec in specs}) == 10


def test_every_fault_that_is_seen_and_every_damage_comes_up() -> None:
    drawn = [draw(1, number) for number in range(300)]
    assert {one.fault for each in drawn for one in each.spec.injections} == set(SEEN)
    assert set(SEEN) | faults.NOT_SEEN == set(faults.REGISTRY)
    assert len({one.kind for each in drawn for one in each.damages}) == 8
    assert {each.full_evidence for each in drawn} == {True, False}


def test_one_fleet_alone_by_its_number() -> None:
    # a process of its own: this one may have another store open
    command = [sys.executable, "-m", "pagewitness", "lab", "soak", "--seed", "5", "--only", "3"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout.splitlines()[-1])
    assert (figures["fleets"], figures["affected_called_clean"], figures["wrong_donor"]) == (1, 0, 0)


@pytest.mark.parametrize("words", [["--fleets", "0"], ["--seed", "-1"], ["--only", "-2"], ["--fleets", "many"]])
def test_bad_numbers_are_usage_errors(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["soak", *words]).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 6])
def test_no_answer_is_wrong(first: int) -> None:
    held = Held()
    with fresh_store() as store:
        for number in range(first, first + 6):
            held.add(run_one(store, draw(2, number)))
    assert held.mistakes == []
    assert held.affected
