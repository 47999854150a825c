"""`pagewitness lab fleet`: files that replay can read, the same bytes for the same seed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.captures.capture import Capture
from lab.cli import app
from lab.fleet import damage, faults
from tests.repo.tree import ROOT

FILES = ("bodies.bin", "manifest.json", "traffic.json", "truth.json")


def fleet(out: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["fleet", "--requests", "60", "--out", str(out), *words])


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    wounded = ("--faults", "short_transfer:0.2", "--damage", "lost:0.1,rebatched:0.2,reordered", "--crashes", "1")
    for name, seed in (("one", "7"), ("same", "7"), ("other", "8")):
        assert fleet(tmp_path / name, "--seed", seed, *wounded).exit_code == 0
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "same" / name).read_bytes() for name in FILES)
    assert (tmp_path / "one" / "bodies.bin").read_bytes() != (tmp_path / "other" / "bodies.bin").read_bytes()


def test_the_files_are_a_capture_and_its_truth_names_every_response(tmp_path: Path) -> None:
    assert fleet(tmp_path / "run").exit_code == 0
    capture = Capture.load(tmp_path / "run")
    assert len(capture.truth["responses"]) == capture.manifest["counts"]["requests"] == 60
    assert {emitter.partition("/")[0] for emitter in capture.emitters()} == {
        f"fleet-{role}-{number}" for role in ("prefill", "decode") for number in (0, 1)
    }


@pytest.mark.parametrize(("option", "known"), [("--faults", faults.REGISTRY), ("--damage", damage.REGISTRY)])
def test_an_unknown_name_is_a_usage_error_that_lists_the_known_ones(
    tmp_path: Path, option: str, known: dict[str, str]
) -> None:
    said = fleet(tmp_path / "run", option, "gremlins")
    assert said.exit_code == 2
    assert all(name in said.output for name in known)
    assert not (tmp_path / "run").exists()


def test_a_form_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    assert fleet(tmp_path / "run", "--faults", "short_transfer:1.5").exit_code == 2
    assert fleet(tmp_path / "run", "--faults", "short transfer").exit_code == 2


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = fleet(tmp_path)
    assert said.exit_code == 1
    assert "empty" in said.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_help_shows_examples() -> None:
    said = CliRunner().invoke(app, ["fleet", "--help"])
    assert "reject_placeholder" in said.output
    assert "Examples" in said.output


def test_truth_says_whose_kv_was_read(tmp_path: Path) -> None:
    assert fleet(tmp_path / "run", "--faults", "abort_continue:0.3").exit_code == 0
    told = json.loads((tmp_path / "run" / "truth.json").read_text())["responses"]
    rids = {one["rid"] for one in told}
    donors = {owner for one in told for _page, _start, _end, owner in one["foreign"]}
    assert donors
    assert donors - {None} <= rids


def test_the_page_about_fleets_says_of_every_fault_whether_the_rules_see_it() -> None:
    page = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in page.splitlines() if row.startswith("| `")]
    said = {row[0].strip("`"): row[2].startswith("yes") for row in rows if len(row) == 3}
    assert said == {fault: fault not in faults.NOT_SEEN for fault in faults.REGISTRY}
