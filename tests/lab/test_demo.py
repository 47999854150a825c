"""The demo as a person runs it: real service, real receiver, real commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from lab.demo import CAPTURES, DEFAULT_CAPTURE
from lab.service import environment

pytestmark = pytest.mark.slow


def demo(*arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, the story, and the figures of the last line."""
    command = [sys.executable, "-m", "lab.demo", *arguments]
    values = environment({"COLUMNS": "80"})
    done = subprocess.run(command, env=values, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    story, _, figures = done.stdout.rstrip("\n").rpartition("\n")
    return done.returncode, story, json.loads(figures)


def test_the_recorded_leak_is_told_and_equals_the_truth() -> None:
    code, story, figures = demo()
    assert code == 0
    assert figures == {"affected": 2, "truth": 2, "false": 0, "missed": 0, "unknown": 0}
    assert "Its answer held other customers' text: [" in " ".join(story.split())
    assert "juniper: 1 response received foreign KV" in story
    assert "zenith: data of 1 response was exposed in 1 foreign response" in story
    assert "Operator's view, not for customers" in story
    assert max(cell_len(line) for line in story.splitlines()) <= 80


def test_the_fixed_engine_has_nobody_affected_over_complete_evidence() -> None:
    code, story, figures = demo("--capture", str(CAPTURES / "sglang-0.5.23-oversized"))
    assert code == 0
    assert figures == {"affected": 0, "truth": 0, "false": 0, "missed": 0, "unknown": 0}
    assert "Exit code 0: asked, nothing wrong found, evidence complete." in story
    assert "Exit code 3" not in story


def test_another_truth_is_not_what_the_answers_say(tmp_path: Path) -> None:
    """One slot range of the truth is given another owner."""
    altered = tmp_path / "altered"
    shutil.copytree(DEFAULT_CAPTURE, altered)
    truth = json.loads((altered / "truth.json").read_text(encoding="utf-8"))
    (first, *_others) = [response for response in truth["responses"] if response["reads"]]
    first["reads"][0] |= {"owner_rid": "00" * 16, "owner_tenant": "zenith"}
    (altered / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    code, _story, figures = demo("--capture", str(altered))
    assert code == 1
    assert figures["false"] > 0
    assert figures["missed"] > 0


def test_a_capture_that_is_not_there_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab.demo", "--capture", str(tmp_path)]
    done = subprocess.run(command, env=environment({}), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no capture" in done.stderr
    assert "Traceback" not in done.stderr
