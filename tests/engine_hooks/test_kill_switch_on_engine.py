"""With the kill switch the engine is as it was: the same answers, and nothing recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.engine.pair import Pair
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import Ask, prompt
from tests.engine_hooks.sglang_plugin.on_engine import MARKER, Run

pytestmark = [pytest.mark.engine_all, pytest.mark.timeout(500)]

VULNERABLE = "0.5.19"


def test_the_kill_switch_leaves_an_engine_that_answers_the_same(runs: Callable[[str], Run], tmp_path: Path) -> None:
    files = RunFolder(tmp_path)
    settings = PairSettings(VULNERABLE, environment={"PAGEWITNESS_HOOKS": "off"})
    with Pair(settings, files) as pair, pair.client() as client:
        body = {
            "text": f"{MARKER} {prompt(Ask('acme', 60), 0)}",
            "sampling_params": {"max_new_tokens": 20, "temperature": 0, "ignore_eos": True},
        }
        answer = client.ask(body, room=7)
    assert answer.decode.body["output_ids"] == runs(VULNERABLE).answers["ordinary"].decode.body["output_ids"]
    assert list(files.rings.iterdir()) == []
