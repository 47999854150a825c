"""The kill switch at run time: when it is looked for, what it stops, and what the evidence says about it afterwards."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine_hooks.facts import Fact
from engine_hooks.recorder import Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_reader import RingReader
from engine_hooks.sglang_plugin.attach import attach
from engine_hooks.sglang_plugin.boundary import SWITCH_OFF_AFTER, Boundary
from engine_hooks.sglang_plugin.kill_file import LOOK_SECONDS, KillFile
from engine_hooks.sglang_plugin.parts import build
from engine_hooks.sglang_plugin.standstill import Standstill
from engine_hooks.sglang_plugin.targets import Target
from tests.engine_hooks.sglang_plugin.support import EVIDENCE, MAC, NODE_BOOT, word_of
from tests.engine_hooks.support import facts_in
from tests.support import fake_sglang as fake


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("engine_hooks.sglang_plugin.boundary.monotonic", made)
    monkeypatch.setattr("engine_hooks.sglang_plugin.kill_file.monotonic", made)
    return made


# ---------------------------------------------------------------------- looking


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that the file is looked for."""
    found: list[str] = []
    exists = os.path.exists

    def counted(path: Any) -> bool:
        found.append(path)
        return exists(path)

    monkeypatch.setattr(os.path, "exists", counted)
    return found


def a_switch(path: Path, said: list[str] | None = None) -> KillFile:
    words = said if said is not None else []
    return KillFile(path, partial(words.append, "stop"), partial(words.append, "go"))


def guarded_by(switch: KillFile, hook: Callable[..., Any]) -> Callable[..., None]:
    boundary = Boundary(lambda values: None, lambda name: None)
    boundary.kill_file = switch
    return boundary.guard("hook", hook)


def test_hooks_look_for_the_file_once_a_second_and_not_at_every_call(
    tmp_path: Path, clock: Clock, looks: list[str]
) -> None:
    hook = guarded_by(a_switch(tmp_path / "off"), lambda: None)
    for _ in range(1000):
        hook()
    assert len(looks) == 1
    clock.now += LOOK_SECONDS
    hook()
    assert len(looks) == 2


def test_while_the_file_is_there_no_hook_is_called(tmp_path: Path, clock: Clock) -> None:
    calls: list[str] = []
    hook = guarded_by(a_switch(tmp_path / "off"), calls.append)
    hook("before")
    (tmp_path / "off").touch()
    clock.now += LOOK_SECONDS
    hook("during")
    (tmp_path / "off").unlink()
    clock.now += LOOK_SECONDS
    hook("after")
    assert calls == ["before", "after"]


def test_each_change_is_said_once(tmp_path: Path, clock: Clock) -> None:
    said: list[str] = []
    switch = a_switch(tmp_path / "off", said)
    for change in ((tmp_path / "off").touch, (tmp_path / "off").unlink):
        change()
        switch.look()
        switch.look()
    assert said == ["stop", "go"]


def test_a_file_that_cannot_be_looked_for_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    switch = a_switch(tmp_path / "file" / "off")
    switch.look()
    assert not switch.still


def test_a_restart_that_fails_leaves_the_hooks_still_and_the_engine_alone(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise MemoryError("client text")

    calls: list[str] = []
    switch = KillFile(tmp_path / "off", lambda: None, fail)
    hook = guarded_by(switch, calls.append)
    (tmp_path / "off").touch()
    hook("during")
    (tmp_path / "off").unlink()
    with caplog.at_level(logging.ERROR):
        for _ in range(2 * SWITCH_OFF_AFTER):
            clock.now += LOOK_SECONDS
            hook("after")
    assert calls == []
    assert switch.next_look == math.inf
    assert [record.getMessage() for record in caplog.records] == [
        "pagewitness: MemoryError at the kill file: the hooks stand still until the engine restarts"
    ]


# ---------------------------------------------------------------------- what it means for the evidence


TARGETS = (
    ("node", "after_init"),
    ("admission", "after_add"),
    ("steps", "after_run_batch"),
    ("release", "before_release"),
    ("response", "before_stream"),
    ("transfer", "after_create_receiver"),
    ("transfer", "before_send_metadata"),
)


class Process:
    """A scheduler process with a kill file: hooks attached to a stand-in registry, called as an engine calls them."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.file = folder / "off"
        self.clock = clock
        self.rings = folder / "rings"
        self.cache = fake.Cache()
        self.engine = fake.node("decode")

    def start(self) -> None:
        make = partial(build, EVIDENCE, (MAC,), NODE_BOOT, self._open)
        parts = make()
        self.standstill = Standstill(parts, make)
        parts.boundary.kill_file = KillFile(self.file, self.standstill.stop, self.standstill.go)
        registry: Any = sys.modules["sglang.srt.plugins.hook_registry"]
        rows = [Target("os.path.exists", method.split("_")[0], f"{part}.{method}", ()) for part, method in TARGETS]
        parts.node.attachment = attach(rows, parts.handlers, parts.boundary, registry)
        self.hooks = {target.handler: hook for target, hook in parts.node.attachment.hooks}
        registry.HookRegistry.apply()
        self.hooks["node.after_init"](None, self.engine)

    def _open(self, name: str) -> Recorder:
        return Recorder(Ring.create(self.rings, f"host1/{name}", capacity=1 << 20, lanes=2))

    def stand_still(self) -> None:
        self.file.touch()
        self.clock.now += LOOK_SECONDS

    def move_on(self) -> None:
        self.file.unlink()
        self.clock.now += LOOK_SECONDS

    # ------------------------------------------------------------------ the engine

    def arrive(self, rid: str) -> fake.Req:
        req = fake.Req(rid)
        self.add(req)
        return req

    def add(self, req: fake.Req, **given: Any) -> None:
        self.hooks["admission.after_add"](None, self.engine, req, **given)

    def step(self, *reqs: fake.Req) -> None:
        for req in reqs:
            length = max(req.kv.kv_allocated_len, len(req.origin_input_ids)) + 1
            req.kv = fake.Kv(1, length, length)
        batch = fake.decode_batch(*((req, req.kv.kv_committed_len) for req in reqs))
        self.hooks["steps.after_run_batch"](None, fake.scheduler(), batch)

    def finish(self, req: fake.Req) -> None:
        req.finished_reason = fake.FINISH_LENGTH()
        self.hooks["release.before_release"](req, self.cache)
        req.kv = fake.Kv()
        self.hooks["response.before_stream"](None, [req], False)

    def live(self, rid: str) -> fake.Req:
        req = self.arrive(rid)
        self.step(req)
        self.finish(req)
        return req

    # ------------------------------------------------------------------ what was recorded

    def boots(self) -> list[Path]:
        """The rings, oldest first."""
        return sorted(self.rings.glob("*.ring"), key=lambda path: path.stat().st_mtime_ns)

    def words(self, boot: int, rid: str) -> list[str]:
        digest = self.standstill.parts.legs.evidence.rid(rid)
        facts = [fact for fact in facts_in(self.boots()[boot]) if fact.leg is not None]
        uids = {fact.leg.uid for fact in facts if fact.leg and fact.values.get("pagewitness.rid") == digest}
        return [word_of(fact) for fact in facts if fact.leg and fact.leg.uid in uids]

    def facts(self, boot: int) -> list[Fact]:
        return facts_in(self.boots()[boot])


WHOLE = ["admission:admitted", "read:first", "release:immediate", "response:length", "end:finished"]


@pytest.fixture
def process(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Process:
    for name, module in fake.modules("0.5.23").items():
        monkeypatch.setitem(sys.modules, name, module)
    return Process(tmp_path, clock)


def test_a_standstill_ends_the_boot_cleanly_with_all_that_was_recorded(process: Process) -> None:
    process.start()
    process.live("before")
    process.stand_still()
    process.live("during")
    (ring,) = process.boots()
    reader = RingReader.open(ring)
    assert reader.closed
    reader.close()
    assert process.words(0, "before") == WHOLE
    assert process.words(0, "during") == []


def test_a_leg_that_lives_through_a_standstill_never_ends(process: Process) -> None:
    process.start()
    req = process.arrive("through")
    process.step(req)
    process.stand_still()
    process.step(req)
    process.move_on()
    process.step(req)
    process.finish(req)
    assert process.words(0, "through") == ["admission:admitted", "read:first"]
    assert process.words(1, "through") == []


def test_a_leg_whose_beginning_was_not_seen_is_not_recorded(process: Process) -> None:
    process.start()
    process.stand_still()
    req = process.arrive("came during it")
    process.move_on()
    process.step(req)
    process.finish(req)
    assert process.words(1, "came during it") == []


def test_a_retracted_request_that_comes_back_was_not_seen_to_arrive(process: Process) -> None:
    process.start()
    process.stand_still()
    req = process.arrive("came during it")
    process.move_on()
    process.add(req, is_retracted=True)
    process.step(req)
    process.finish(req)
    assert process.words(1, "came during it") == []


def test_a_leg_that_begins_after_a_standstill_is_recorded_whole(process: Process) -> None:
    process.start()
    process.stand_still()
    process.live("during")
    process.move_on()
    process.live("after")
    assert process.words(1, "after") == WHOLE
    assert process.facts(1)[0].span.name == "pagewitness.node.config"


def test_the_boot_after_a_standstill_begins_with_a_loss(process: Process) -> None:
    """Pages hold what nobody saw being written: a search for whose it is must stop here."""
    process.start()
    process.stand_still()
    process.arrive("during")
    process.move_on()
    process.arrive("after")
    drops = []
    for ring in process.boots():
        reader = RingReader.open(ring)
        drops.append(reader.drops)
        reader.close()
    assert drops == [0, 1]


def test_a_uid_is_never_given_twice(process: Process) -> None:
    process.start()
    process.live("again")
    process.stand_still()
    process.arrive("during")
    process.move_on()
    process.live("again")
    uids = [{fact.leg.uid for fact in process.facts(boot) if fact.leg} for boot in (0, 1)]
    assert len(uids[0]) == len(uids[1]) == 1
    assert uids[0] != uids[1]


def test_both_boots_are_the_same_emitter_and_node(process: Process) -> None:
    process.start()
    process.stand_still()
    process.arrive("during")
    process.move_on()
    process.arrive("after")
    configs = [process.facts(boot)[0].values for boot in (0, 1)]
    assert configs[0] == configs[1]
    readers = [RingReader.open(ring) for ring in process.boots()]
    assert readers[0].emitter == readers[1].emitter
    assert readers[0].boot != readers[1].boot
    for reader in readers:
        reader.close()


def test_hooks_that_fail_after_a_standstill_strike_the_legs_of_the_new_boot(process: Process) -> None:
    process.start()
    process.stand_still()
    process.arrive("during")
    process.move_on()
    req = process.arrive("struck")
    process.hooks["steps.after_run_batch"](
        None, None, SimpleNamespace(forward_mode=fake.ForwardMode.DECODE, reqs=[req])
    )
    process.finish(req)
    ordinals = [fact.leg.ordinal for fact in process.facts(1) if fact.leg]
    assert ordinals == [1, 3, 4]


def test_with_the_file_there_at_the_start_nothing_is_recorded_until_the_engine_restarts(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    process.stand_still()
    process.start()
    process.move_on()
    process.live("after")
    assert not process.rings.exists()
    assert "until it restarts" in caplog.text
