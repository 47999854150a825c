"""The doctor finds what would keep evidence from being recorded or posted."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_hooks.doctor import Check, examine
from engine_hooks.recorder import Recorder
from tests.engine_hooks.receiver import Receiver, Reply
from tests.engine_hooks.support import a_ring, record_reads, writer_process

KEY = "ab" * 32


def environment(folder: Path, **changed: str) -> dict[str, str]:
    return {
        "PAGEWITNESS_RING_DIR": str(folder / "rings"),
        "PAGEWITNESS_SPOOL_DIR": str(folder / "spool"),
        "PAGEWITNESS_RING_BYTES": "1M",
        "PAGEWITNESS_SPOOL_BYTES": "1M",
        "PAGEWITNESS_MAC_KEYS": f"m1:{KEY}",
        "PAGEWITNESS_EVIDENCE_KEY": f"e1:{KEY}",
    } | changed


def checks(folder: Path, **changed: str) -> dict[str, Check]:
    return {check.name: check for check in examine(environment(folder, **changed), ask_receiver=False)}


def test_a_sound_host_has_no_failure(tmp_path: Path) -> None:
    found = checks(tmp_path)

    assert [check for check in found.values() if check.status == "fail"] == []
    assert found["python"].detail
    assert found["opentelemetry-sdk"].detail[0].isdigit()


def test_it_changes_nothing(tmp_path: Path) -> None:
    checks(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_missing_keys_are_said_with_what_to_set(tmp_path: Path) -> None:
    found = checks(tmp_path, PAGEWITNESS_MAC_KEYS="", PAGEWITNESS_EVIDENCE_KEY="")

    assert (found["MAC keys"].status, found["evidence key"].status) == ("blind", "fail")
    assert "PAGEWITNESS_EVIDENCE_KEY" in found["evidence key"].advice


def test_a_setting_that_does_not_parse_is_a_failure(tmp_path: Path) -> None:
    found = checks(tmp_path, PAGEWITNESS_MAC_KEYS="m1:zz")

    assert found["settings"].status == "fail"
    assert "PAGEWITNESS_MAC_KEYS" in found["settings"].detail


def test_where_the_hooks_are_switched_off_there_is_no_evidence(tmp_path: Path) -> None:
    assert checks(tmp_path, PAGEWITNESS_HOOKS="off")["hooks"].status == "blind"


def test_a_ring_directory_that_others_can_write_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    (tmp_path / "rings").chmod(0o777)

    found = checks(tmp_path)["ring directory"]

    assert found.status == "fail"
    assert "forge evidence" in found.advice


def test_a_directory_without_the_space_is_a_failure(tmp_path: Path) -> None:
    assert checks(tmp_path, PAGEWITNESS_SPOOL_BYTES="900T")["spool directory"].status == "fail"


def test_a_directory_that_cannot_be_written_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_hooks.doctor.os.access", lambda path, mode: False)  # root can write everywhere

    assert checks(tmp_path)["ring directory"].status == "fail"


def test_a_living_ring_is_reported(tmp_path: Path) -> None:
    with writer_process(tmp_path / "rings"):
        found = checks(tmp_path)["ring"]

    assert found.status == "ok"
    assert found.detail.startswith("host1/decode: alive, 0% full")


def test_a_ring_with_losses_is_a_warning(tmp_path: Path) -> None:
    recorder = Recorder(a_ring(tmp_path / "rings"))
    record_reads(recorder, 2000)
    recorder.hook_error()

    found = checks(tmp_path)["ring"]

    assert found.status == "warn"
    assert "1 hook errors" in found.detail


def test_a_broken_ring_is_a_failure_and_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir(mode=0o700)
    (tmp_path / "rings" / "x.ring").write_bytes(b"nonsense")

    assert checks(tmp_path)["ring"].status == "fail"
    assert (tmp_path / "rings" / "x.ring").exists()


@pytest.mark.parametrize(("status", "result"), [(200, "ok"), (401, "fail"), (503, "warn")])
def test_the_receiver_is_asked_with_an_empty_export(
    status: int, result: str, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.script = [Reply(status)]

    found = examine(environment(tmp_path, PAGEWITNESS_EXPORT_URL=receiver.url))[-1]

    assert (found.name, found.status) == ("receiver", result)
    assert [request.body for request in receiver.requests] == [b""]
