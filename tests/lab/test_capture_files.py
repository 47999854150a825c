"""A capture on disk: what was saved is what is loaded, and damage is noticed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lab.captures.capture import Body, Capture, CaptureError, dumps
from tests.support.otlp import export, fact

EMITTER = "lab1/decode-31001-tp0"
PLAIN = export(fact("pagewitness.request.admission", emitter=EMITTER, admission_state="admitted"))


def body(*, packed: bool = True) -> Body:
    if packed:
        return Body(gzip.compress(PLAIN, mtime=0), "application/x-protobuf", "gzip")
    return Body(PLAIN, "application/x-protobuf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    capture = Capture("one", {"engine_version": "0"}, (body(), body(packed=False)), {"responses": []}, {"requests": []})
    capture.save(tmp_path / "one")
    return tmp_path / "one"


def test_bodies_come_back_byte_for_byte_and_in_order(folder: Path) -> None:
    assert Capture.load(folder).bodies == (body(), body(packed=False))


def test_truth_and_traffic_come_back(folder: Path) -> None:
    loaded = Capture.load(folder)
    assert (loaded.name, loaded.truth, loaded.traffic) == ("one", {"responses": []}, {"requests": []})


def test_the_emitters_are_read_from_the_bodies(folder: Path) -> None:
    assert Capture.load(folder).emitters() == [EMITTER]


def test_a_changed_byte_is_noticed(folder: Path) -> None:
    data = bytearray((folder / "bodies.bin").read_bytes())
    data[5] ^= 1
    (folder / "bodies.bin").write_bytes(data)
    with pytest.raises(CaptureError, match=r"body 1 .* is damaged"):
        Capture.load(folder)


def test_bytes_that_no_line_lists_are_noticed(folder: Path) -> None:
    with (folder / "bodies.bin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(CaptureError, match="4 bytes that the manifest does not list"):
        Capture.load(folder)


@pytest.mark.parametrize("name", ["manifest.json", "bodies.bin", "truth.json", "traffic.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CaptureError, match=f"{name} is missing"):
        Capture.load(folder)


def test_another_layout_is_refused(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(CaptureError, match="format 99; this version reads 1"):
        Capture.load(folder)


def test_damaged_json_is_refused(folder: Path) -> None:
    (folder / "truth.json").write_text("{")
    with pytest.raises(CaptureError, match=r"truth\.json is damaged"):
        Capture.load(folder)


@pytest.mark.parametrize(
    "value", [{}, [], {"a": [], "b": {}}, {"a": [{"b": [1, 2]}, {"c": {"d": "é"}}]}, [[1], [[2]]], "text"]
)
def test_the_json_that_people_read_is_json(value: object) -> None:
    assert json.loads(dumps(value)) == value
