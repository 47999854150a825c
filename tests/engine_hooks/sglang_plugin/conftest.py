"""A decode node and a prefill node without an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig


@pytest.fixture
def decode(tmp_path: Path) -> Rig:
    return Rig(tmp_path, role="decode")


@pytest.fixture
def prefill(tmp_path: Path) -> Rig:
    return Rig(tmp_path, role="prefill")
