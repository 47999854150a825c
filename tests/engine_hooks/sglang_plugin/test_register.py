"""The entry point: when it attaches, when it does not, and that the engine starts either way."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine_hooks.sglang_plugin import process, register
from engine_hooks.sglang_plugin.table import targets_for
from tests.support import fake_sglang as fake

KEY = f"ev-1:{bytes(range(32)).hex()}"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The stand-in engine's registry in a process that has what it needs to record."""
    for name, module in fake.modules("0.5.23").items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("HOOKS", "EMITTER", "RING_BYTES", "MAC_KEYS", "NODE_BOOT"):
        monkeypatch.setenv(f"PAGEWITNESS_{name}", "")  # so that what `register` sets is taken back, too
    monkeypatch.setenv("PAGEWITNESS_RING_DIR", str(tmp_path / "rings"))
    monkeypatch.setenv("PAGEWITNESS_EVIDENCE_KEY", KEY)
    return sys.modules["sglang.srt.plugins.hook_registry"].HookRegistry


def run_scheduler_process() -> None:
    """Named like the engine's entry of a scheduler process, which calls its plugins first thing."""
    register()


def run_detokenizer_process() -> None:
    register()


def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with everything that the table of 0.5.23 asks for."""
    for target in targets_for((0, 5, 23)):
        holder, _, function = target.path.rpartition(".")
        module_name, _, owner_name = holder.rpartition(".")
        if not owner_name[0].isupper():
            module_name, owner_name = holder, ""
        module = sys.modules.get(module_name) or ModuleType(module_name)
        monkeypatch.setitem(sys.modules, module_name, module)
        owner = module
        if owner_name:
            owner = module.__dict__.setdefault(owner_name, type(owner_name, (), {}))
        source = f"def {function}({', '.join(target.uses)}): ..."
        names: dict[str, Any] = {}
        exec(source, names)
        setattr(owner, function, names[function])


def test_a_scheduler_process_attaches_the_whole_table(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    run_scheduler_process()
    assert {path for path, _, _ in registry.registered} == {
        target.path for target in targets_for((0, 5, 23), "control")
    }


def test_the_exact_tier_attaches_more(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    monkeypatch.setenv("PAGEWITNESS_TIER", "exact")
    run_scheduler_process()
    assert {path for path, _, _ in registry.registered} == {target.path for target in targets_for((0, 5, 23), "exact")}


def test_nothing_is_made_on_disk_before_a_scheduler_is_built(
    registry: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch)
    run_scheduler_process()
    assert list(tmp_path.iterdir()) == []


def test_the_main_process_only_draws_the_node_boot(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    register()
    assert registry.registered == []
    assert len(bytes.fromhex(os.environ["PAGEWITNESS_NODE_BOOT"])) == 16


def test_a_child_inherits_the_node_boot() -> None:
    environment: dict[str, str] = {}
    drawn = process.inherit_node_boot(environment)
    assert process.inherit_node_boot(environment) == drawn


@pytest.mark.parametrize("broken", ["", "xyz", "00" * 8])
def test_a_node_boot_that_is_none_is_drawn_anew(broken: str) -> None:
    environment = {"PAGEWITNESS_NODE_BOOT": broken}
    assert len(process.inherit_node_boot(environment)) == 16
    assert environment["PAGEWITNESS_NODE_BOOT"] != broken


def test_the_detokenizer_is_no_scheduler(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    run_detokenizer_process()
    assert registry.registered == []


def test_a_child_process_of_unknown_entry_counts_as_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    assert process.is_scheduler()


def test_the_kill_switch_leaves_the_engine_untouched(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    monkeypatch.setenv("PAGEWITNESS_HOOKS", "off")
    run_scheduler_process()
    assert registry.registered == []


def test_without_an_evidence_key_the_engine_starts_and_the_log_says_what_to_do(
    registry: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    installed(monkeypatch)
    monkeypatch.delenv("PAGEWITNESS_EVIDENCE_KEY")
    with caplog.at_level(logging.ERROR):
        run_scheduler_process()
    assert registry.registered == []
    assert "PAGEWITNESS_EVIDENCE_KEY" in caplog.text


def test_a_setting_that_cannot_be_used_stops_the_recording_not_the_engine(
    registry: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    installed(monkeypatch)
    secret = "5ec7e7" * 3
    monkeypatch.setenv("PAGEWITNESS_MAC_KEYS", f"mac:{secret}!")
    with caplog.at_level(logging.ERROR):
        run_scheduler_process()
    assert registry.registered == []
    assert "PAGEWITNESS_MAC_KEYS" in caplog.text
    assert secret not in caplog.text


def test_an_engine_that_is_not_what_it_was_still_starts(registry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sglang.srt.plugins.hook_registry")
    monkeypatch.delattr(sys.modules["sglang.srt.plugins"], "hook_registry")
    run_scheduler_process()
    assert registry.registered == []


def test_the_package_imports_nothing_of_the_engine() -> None:
    """Every module of it, in a process of its own."""
    script = (
        "import importlib, pkgutil, sys\n"
        "import engine_hooks.sglang_plugin as package\n"
        "for found in pkgutil.iter_modules(package.__path__):\n"
        "    importlib.import_module(f'{package.__name__}.{found.name}')\n"
        "print(*sorted({'sglang', 'torch', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
