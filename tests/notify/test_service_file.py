from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from notify.errors import CommandError
from notify.service.service_file import NAME, ServiceFile, is_alive

FILE = ServiceFile("http://127.0.0.1:4318", 42, "t" * 43)


def test_what_was_written_is_read_and_only_the_owner_may(tmp_path: Path) -> None:
    path = FILE.write(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ServiceFile.read(tmp_path) == FILE
    assert [entry.name for entry in tmp_path.iterdir()] == [NAME]


def test_no_file_means_no_service(tmp_path: Path) -> None:
    assert ServiceFile.read(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "x"}', '{"url": "x", "pid": "y", "token": "z"}'])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    with pytest.raises(CommandError, match="restart `pagewitness serve`"):
        ServiceFile.read(tmp_path)


def test_a_service_removes_its_own_file_only(tmp_path: Path) -> None:
    FILE.write(tmp_path)
    other = ServiceFile("http://127.0.0.1:1", 43, "u" * 43)
    other.remove(tmp_path)
    assert ServiceFile.read(tmp_path) == FILE
    FILE.remove(tmp_path)
    assert ServiceFile.read(tmp_path) is None


def test_a_process_is_alive_or_not() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert is_alive(os.getpid())
    assert not is_alive(child)
