"""The files of the truth plugin: all of them, undamaged, or no truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.engine.errors import LabError
from lab.engine.truth_records import collect, load
from tests.lab.truth_lines import Script


def write(folder: Path, script: Script) -> None:
    """One file a role, as the plugin names them."""
    for role in ("prefill", "decode"):
        lines = [
            json.dumps({k: v for k, v in line.items() if k != "role"} | {"role": role})
            for line in script.lines
            if line["role"] == role
        ]
        (folder / f"{role}-123.jsonl").write_text("\n".join(lines) + "\n")


def test_files_of_both_roles_are_read_in_order_of_time(tmp_path: Path) -> None:
    write(tmp_path, Script().prefill_writes("a", ["a0"]).decode_writes("a", 1, 5, "a1"))
    records = load(tmp_path)
    assert [(write.role, write.rid, write.start) for write in records.writes] == [
        ("prefill", "a", 0),
        ("decode", "a", 1),
    ]


def test_an_error_of_the_plugin_is_the_end_of_the_truth() -> None:
    script = Script().add("error", "decode", where="before_forward", what="KeyError('x')")
    with pytest.raises(LabError, match="before_forward on decode: KeyError"):
        script.records()


def test_a_role_without_a_file_is_named() -> None:
    with pytest.raises(LabError, match="it has decode rank 0"):
        collect(line for line in Script().lines if line["role"] == "decode")


def test_two_processes_of_one_role_are_refused() -> None:
    script = Script()
    with pytest.raises(LabError, match="decode"):
        collect([*script.lines, script.lines[1]])


def test_a_rank_that_wrote_no_file_is_noticed() -> None:
    script = Script(ranks=2)
    with pytest.raises(LabError, match="it has decode rank 0, prefill rank 0, prefill rank 1"):
        collect(line for line in script.lines if (line["role"], line["rank"]) != ("decode", 1))


def test_each_rank_has_its_own_records() -> None:
    script = Script(ranks=2).prefill_writes("a", ["a0"])
    script.rank = 1
    records = script.prefill_writes("b", ["b0"]).records()
    assert [[write.rid for write in records.of_rank(rank).writes] for rank in records.ranks] == [["a"], ["b"]]


def test_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="it has none"):
        load(tmp_path)


def test_a_damaged_line_is_refused_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "decode-1.jsonl").write_text('{"kind": "start", "t":')
    with pytest.raises(LabError, match=r"decode-1\.jsonl has a damaged line"):
        load(tmp_path)


def test_a_line_of_unknown_kind_is_refused() -> None:
    with pytest.raises(LabError, match="unknown kind 'guess'"):
        Script().add("guess", "decode", slots=[], hashes=[]).records()
