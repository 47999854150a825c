"""`pagewitness lab incident`: what is refused, what is printed, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli import app
from lab.engine.progress import say_nothing, say_on_stderr
from lab.fleet.spec import FleetSpec
from lab.incident import command
from lab.incident.held import Result as Answered
from lab.incident.run import run
from lab.incident.scenario import SEEDS
from lab.progress import INTERRUPTED
from tests.repo.tree import ROOT
from tests.support.incidents import CUSTOMERS, small_incident
from tests.support.stores import fresh_store

PATIENCE = 100.0
COUNT = (
    "import sys; from pathlib import Path; from collector.store import open_store\n"
    "with open_store(Path(sys.argv[1])) as store:\n"
    "    (row,) = store.handle().rows('SELECT count() AS facts FROM facts')\n"
    "    print(row['facts'])"
)


def incident(*words: str) -> Result:
    return CliRunner().invoke(app, ["incident", *words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requests", "2999"], "2999 requests are too few for 14 days: take 3000 or more"),
        (["--requests", "-1"], "take 3000 or more"),
        (["--requests", "many"], "as an integer"),
        (["--seed", "-1"], "greater than or equal to 0"),
        (["--all-seeds"], "--all-seeds keeps nothing: leave --store out, or name one --seed"),
    ],
    ids=" ".join,
)
def test_bad_values_are_usage_errors_and_nothing_is_written(tmp_path: Path, words: list[str], said: str) -> None:
    done = incident(*words, "--store", str(tmp_path / "kept"))
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = incident("--store", str(tmp_path))
    assert done.exit_code == 2
    assert "not an empty folder" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("right", [True, False])
def test_the_last_word_is_one_json_line_and_the_exit_code_says_whether_it_is_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, right: bool
) -> None:
    with fresh_store() as store:
        result = run(store, *small_incident(), say_on_stderr, lambda body: right or not body.data)
    monkeypatch.setattr(command, "_run", lambda *_: result)
    capsys.readouterr()
    done = incident("--store", str(tmp_path / "kept"))
    assert done.exit_code == (0 if right else 1)
    figures = json.loads(done.stdout)
    assert (figures["affected"], figures["truth"]) == (CUSTOMERS if right else 0, CUSTOMERS)
    assert f"notify incident affected oversized-prompts --data-dir {tmp_path / 'kept'}" in done.stderr


def test_all_seeds_are_five_lines_and_one_wrong_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh_store() as store:
        good = run(store, *small_incident(), say_nothing)
    bad = replace(good, min_input_tokens=0)
    seeds: list[int] = []

    def fake(specs: tuple[FleetSpec, FleetSpec], _folder: Path | None) -> Answered:
        seeds.append(specs[0].seed)
        return bad if specs[0].seed == SEEDS[2] else good

    monkeypatch.setattr(command, "_run", fake)
    done = incident("--all-seeds")
    assert done.exit_code == 1
    assert tuple(seeds) == SEEDS
    assert [json.loads(line)["min_input_tokens"] == 0 for line in done.stdout.splitlines()] == [False] * 2 + [True] + [
        False
    ] * 2


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The real command, as a process that Ctrl-C reaches."""
    words = [sys.executable, "-m", "pagewitness", "lab", "incident", "--requests", "3000", "--store", str(folder)]
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,  # a job in the background ignores it
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("moment", ["judging", pytest.param("requests of atlas-1m", marks=pytest.mark.slow)])
def test_ctrl_c_ends_it_and_leaves_a_store_that_opens(tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "kept"
    with running(folder) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if moment in line:
                break
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert "interrupted" in err
    assert "Traceback" not in err
    opened = subprocess.run([sys.executable, "-c", COUNT, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert opened.returncode == 0, opened.stderr
    assert int(opened.stdout) > 1000
