"""The real engine: a pair of its own in a namespace of its own, and a capture recorded from it.

Needs `python -m lab.engine install`, root and network namespaces. Never skips: a missing part fails.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.captures.capture import Capture
from lab.engine.capture import record
from lab.engine.errors import LabError
from lab.engine.install import MAIN, parts
from lab.engine.namespace import Namespace, remove_stale
from lab.engine.pair import Pair
from lab.engine.paths import REPOSITORY, LabPaths
from lab.engine.progress import say_nothing
from lab.engine.servers import DECODE_PORT, PREFILL_PORT, PairSettings, RunFolder
from lab.engine.stories import STORIES
from lab.engine.stories.story import VULNERABLE
from lab.engine.traffic import Ask, Sender, play

pytestmark = pytest.mark.engine

LEAK = REPOSITORY / "lab" / "captures" / f"sglang-{VULNERABLE}-oversized"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    run = RunFolder(tmp_path_factory.mktemp("pair"))
    with Pair(PairSettings(version=MAIN, hooks=False), run, say=say_nothing) as running:
        yield running


def inside(pair: Pair, *command: str) -> str:
    return subprocess.run(pair.namespace.command(*command), check=True, capture_output=True, text=True).stdout


def test_an_answer_echoes_its_own_tenants_marker_and_no_other(pair: Pair) -> None:
    with pair.client() as client:
        outcomes = play([Ask("acme", 48, 8), Ask("orion", 48, 8)], Sender(client, "echo"))
    assert [(o.prefill_status, o.status, o.own, o.echoed) for o in outcomes] == [(200, 200, 8, {})] * 2


def test_its_namespace_has_nothing_but_lo(pair: Pair) -> None:
    links = inside(pair, "ip", "-oneline", "link").splitlines()
    assert [line.split(":")[1].strip() for line in links] == ["lo"]


@pytest.mark.parametrize("port", [PREFILL_PORT, DECODE_PORT])
def test_nobody_outside_can_reach_it(pair: Pair, port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)


def test_the_engine_cannot_import_the_rest_of_this_repository(pair: Pair) -> None:
    (server, *_) = pair.namespace.pids()
    environment = Path(f"/proc/{server}/environ").read_text()
    assert str(REPOSITORY) + "\0" not in environment
    assert "PAGEWITNESS" not in environment


def test_a_second_pair_of_the_same_process_is_refused(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="a pair is up already"):
        Pair(pair.settings, RunFolder(tmp_path), pair.paths, say=say_nothing).up()
    assert pair.dead_servers() == []


def test_a_pair_of_a_living_process_is_not_stale(pair: Pair) -> None:
    assert pair.namespace.name not in remove_stale(pair.paths.root)
    assert pair.namespace.exists


def test_nothing_is_left_to_install() -> None:
    assert [part.name for part in parts(LabPaths.from_environment()) if not part.current] == []


def test_what_a_dead_owner_left_is_ended_and_removed(tmp_path: Path) -> None:
    owner = subprocess.Popen(["sleep", "600"])
    started = Path(f"/proc/{owner.pid}/stat").read_text().rpartition(")")[2].split()[19]
    mine = Namespace.of(tmp_path)
    left = Namespace(f"{mine.name.rsplit('-', 2)[0]}-{owner.pid}-{started}")
    left.create()
    inhabitant = subprocess.Popen(left.command("sleep", "600"))
    try:
        assert remove_stale(tmp_path) == []
        owner.kill()
        owner.wait()
        assert remove_stale(tmp_path) == [left.name]
        assert inhabitant.wait() != 0
        assert not left.exists
    finally:
        owner.kill()
        left.remove()


def test_a_server_that_dies_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    settings = PairSettings(version=MAIN, hooks=False, arguments=("--no-such-option",))
    # A folder of its own names a namespace of its own: another pair may be up.
    paths = LabPaths(tmp_path / "lab")
    paths.root.symlink_to(LabPaths.from_environment().root)
    pair = Pair(settings, RunFolder(tmp_path / "run"), paths, say=say_nothing)
    with pytest.raises(LabError, match=r"(?s)server died while starting.*--no-such-option"):
        pair.up()
    assert not pair.namespace.exists


@pytest.fixture(scope="module")
def leak(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """A capture recorded now; `record` asserts what it has to show."""
    paths = LabPaths(tmp_path_factory.mktemp("leak") / "lab")
    paths.root.symlink_to(LabPaths.from_environment().root)
    return record(STORIES["oversized"], VULNERABLE, tmp_path_factory.mktemp("capture") / "now", paths)


def ranges(truth: dict[str, Any]) -> list[list[Any]]:
    """The foreign reads of each response, requests by their place in the script: a run's digests are its own."""
    place = {request["rid"]: number for number, request in enumerate(truth["requests"])}
    return [
        [place[response["rid"]], [read | {"owner_rid": place[read["owner_rid"]]} for read in response["reads"]]]
        for response in truth["responses"]
    ]


def test_the_leak_of_the_committed_capture_happens_again_slot_by_slot(leak: Capture) -> None:
    assert ranges(leak.truth) == ranges(Capture.load(LEAK).truth)


def test_a_recorded_capture_can_be_loaded(leak: Capture) -> None:
    assert leak.emitters() == Capture.load(LEAK).emitters()
