"""A message is one line, whatever is in it."""

from __future__ import annotations

import logging
import re

import pytest

from engine_hooks.log import to_stderr


def test_a_message_is_one_line_with_time_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()

    logging.getLogger("engine_hooks.agent").warning("first\r\nsecond")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING first\\r\\nsecond\n", capsys.readouterr().err)
