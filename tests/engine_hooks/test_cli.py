"""The console script: what it prints where, and its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine_hooks.cli import main
from engine_hooks.recorder import Recorder
from engine_hooks.settings import SETTINGS
from engine_hooks.version import VERSION
from tests.engine_hooks.receiver import Receiver, Reply
from tests.engine_hooks.support import a_ring, record_reads, writer_process


def agent_arguments(folder: Path, receiver: Receiver, *more: str) -> list[str]:
    folders = ["--ring-dir", str(folder / "rings"), "--spool-dir", str(folder / "spool")]
    return ["agent", *folders, "--url", receiver.url, *more]


@pytest.mark.parametrize("arguments", [["--help"], ["agent", "--help"], ["doctor", "--help"], ["--version"]])
def test_asking_for_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out


def test_help_shows_examples_exit_codes_and_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--help"])
    text = capsys.readouterr().out

    assert "pagewitness-hooks agent --once" in text
    assert "2 usage" in text
    assert all(setting.name in text for setting in SETTINGS)


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])

    assert capsys.readouterr().out == f"{VERSION}\n"


@pytest.mark.parametrize("arguments", [[], ["sing"], ["agent", "--loudly"], ["doctor", "--output", "yaml"]])
def test_wrong_usage_is_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--url", "nonsense"], "PAGEWITNESS_EXPORT_URL"),
        (["--url", "http://host/é"], "PAGEWITNESS_EXPORT_URL"),
        (["--url", "http://a..b"], "PAGEWITNESS_EXPORT_URL"),
        (["--token-file", "/nonexistent/token"], "PAGEWITNESS_EXPORT_TOKEN_FILE"),
    ],
)
def test_a_setting_that_cannot_be_used_is_exit_2_and_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agent", "--once", *arguments]) == 2
    assert named in capsys.readouterr().err


def test_once_sends_what_is_there(tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    record_reads(Recorder(a_ring(tmp_path / "rings")), 7)

    assert main(agent_arguments(tmp_path, receiver, "--once")) == 0

    assert len(receiver.facts) == 7
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "posted 7 facts" in captured.err


def test_once_is_exit_1_if_the_receiver_does_not_take_it(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine_hooks.agent_command.ONCE_SECONDS", 0.2)
    record_reads(Recorder(a_ring(tmp_path / "rings")), 7)
    receiver.rule = lambda request: Reply(503)

    assert main(agent_arguments(tmp_path, receiver, "--once")) == 1
    said = capsys.readouterr().err
    assert "still in the rings or the spool, run again" in said

    receiver.rule = lambda request: None
    assert main(agent_arguments(tmp_path, receiver, "--once")) == 0
    assert len(receiver.facts) == 7


def test_once_does_not_call_a_corrupt_ring_a_success(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    record_reads(Recorder(a_ring(tmp_path / "rings")), 7)
    (tmp_path / "rings" / "x.ring").write_bytes(b"no ring")

    assert main(agent_arguments(tmp_path, receiver, "--once")) == 1
    said = capsys.readouterr().err
    assert "*.corrupt: 1; what they still held is lost" in said
    assert "nothing is lost" not in said
    assert len(receiver.facts) == 7

    assert main(agent_arguments(tmp_path, receiver, "--once")) == 0


@pytest.mark.parametrize("shared", ["rings", "spool"])
def test_a_second_agent_on_a_directory_is_told_who_has_it(shared: str, tmp_path: Path, receiver: Receiver) -> None:
    other = "spool" if shared == "rings" else "rings"
    command = [sys.executable, "-m", "engine_hooks.cli"]
    with subprocess.Popen([*command, *agent_arguments(tmp_path, receiver)], stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        first.stderr.readline()
        second = agent_arguments(tmp_path, receiver)
        second[second.index(str(tmp_path / other))] = str(tmp_path / "another")
        result = subprocess.run([*command, *second], capture_output=True, text=True, check=False, timeout=30)
        first.terminate()

    assert result.returncode == 1
    assert f"process id {first.pid}" in result.stderr
    assert str(tmp_path / shared) in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_makes_it_drain_say_so_and_exit_0(number: signal.Signals, tmp_path: Path, receiver: Receiver) -> None:
    command = [sys.executable, "-m", "engine_hooks.cli", *agent_arguments(tmp_path, receiver)]
    with (
        writer_process(tmp_path / "rings", "for n in range(300): recorder.read(leg, phase='first', tokens=n)"),
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent,
    ):
        deadline = time.monotonic() + 20
        while not receiver.heartbeats and time.monotonic() < deadline:
            time.sleep(0.02)
        before = len(receiver.heartbeats)
        agent.send_signal(number)
        _, messages = agent.communicate(timeout=20)

    assert agent.returncode == 0
    assert "posted 300 facts" in messages
    assert len(receiver.facts) == 300
    last = receiver.heartbeats[-1].values
    assert len(receiver.heartbeats) > before
    assert (last["pagewitness.close"], last["pagewitness.seq.high_water"]) == ("open", 300)


def test_messages_are_one_line_each_in_utc(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    record_reads(Recorder(a_ring(tmp_path / "rings")), 1)
    main(agent_arguments(tmp_path, receiver, "--once"))

    (line,) = [line for line in capsys.readouterr().err.splitlines() if "draining" in line]
    stamp, level, _ = line.split(" ", 2)
    assert stamp.endswith("Z")
    assert level == "INFO"


def test_the_doctor_prints_a_table_or_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGEWITNESS_RING_DIR", str(tmp_path / "rings"))
    monkeypatch.setenv("PAGEWITNESS_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.setenv("PAGEWITNESS_EVIDENCE_KEY", "e1:" + "ab" * 32)

    incomplete = 4  # there is no engine here, so nobody can say what attaches
    assert main(["doctor", "--offline"]) == incomplete
    table = capsys.readouterr().out
    assert main(["doctor", "--offline", "--json"]) == incomplete
    text = capsys.readouterr().out
    assert main(["doctor", "--offline", "--output", "json"]) == incomplete

    assert capsys.readouterr().out == text
    assert "\033" not in table
    assert all(check["name"] in table for check in json.loads(text)["checks"])


def test_the_doctor_is_exit_1_where_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGEWITNESS_EVIDENCE_KEY", "broken")

    assert main(["doctor", "--offline"]) == 1
    assert "PAGEWITNESS_EVIDENCE_KEY" in capsys.readouterr().out
