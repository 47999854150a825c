"""A pair whose hooks can be measured, and blocks of requests for it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine_hooks.identity import mint_salt, parse_keys
from lab.engine import keys
from lab.engine.agent_process import AgentProcess
from lab.engine.client import Client
from lab.engine.errors import LabError
from lab.engine.pair import Pair
from lab.engine.plugins import with_plugin
from lab.engine.recording_receiver import RecordingReceiver
from lab.engine.servers import PairSettings, RunFolder
from lab.engine.traffic import room_of

PLUGIN = Path(__file__).parent / "plugin"
VERSION = "0.5.19"
ROLES = ("prefill", "decode")
MOST_RUNNING = 64
OFF, ON, HOOKS, FACTS = range(4)  # as in the plugin
_NOTICE_SECONDS = 20.0
_FILLER = "the quick brown fox jumps over the lazy dog "
_SALTS = itertools.cycle(
    mint_salt(name, pseudonym_key=parse_keys(keys.PSEUDONYM_KEY)[0], mac_key=parse_keys(keys.MAC_KEY)[0])
    for name in ("acme", "zenith", "orion")
)


class Blocks:
    """Sends blocks of requests, all of a block at once or so many at a time, in a mode of the plugin."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._numbers = itertools.count()

    def send(self, requests: int, answer_tokens: int, *, prompt_tokens: int = 64, at_once: int = 8) -> float:
        """One block, until its last answer; the seconds it took. Raises LabError if one was not answered well."""
        began = time.perf_counter()
        waiting: list[Any] = []
        for _ in range(requests):
            number = next(self._numbers)
            rid = f"cost-{number:08d}"
            body = {
                "rid": rid,
                "text": f"{number:08d}{_FILLER * prompt_tokens}"[:prompt_tokens],  # one character, one token
                "cache_salt": next(_SALTS),
                "sampling_params": {"temperature": 0, "max_new_tokens": answer_tokens, "ignore_eos": True},
            }
            waiting.append(self._client.send(body, room=room_of(rid), timeout=300.0))
            if len(waiting) >= at_once:
                _check(waiting.pop(0).result())
        for one in waiting:
            _check(one.result())
        return time.perf_counter() - began

    def set(self, mode: int) -> None:
        """The mode of the next block. The servers notice at their next hook."""
        with (self._folder / "control").open("r+b") as file:
            file.write(bytes([mode]))
        time.sleep(0.2)

    def measured(self, mode: int, requests: int, answer_tokens: int, **given: int) -> dict[str, dict[str, Any]]:
        """Send a block in this mode; what each role's process wrote down of it."""
        before = {role: len(self._lines(role)) for role in ROLES}
        self.set(mode)
        self.send(requests, answer_tokens, **given)
        self.set(ON)
        self.send(1, 2)  # a server notices at its next hook
        deadline = time.monotonic() + _NOTICE_SECONDS
        while any(len(self._lines(role)) == before[role] for role in ROLES):
            if time.monotonic() > deadline:
                raise LabError("a server did not notice that the block is over")
            time.sleep(0.1)
        return {role: json.loads(self._lines(role)[-1]) for role in ROLES}

    def _lines(self, role: str) -> list[str]:
        path = self._folder / f"{role}.jsonl"
        return path.read_text().splitlines() if path.exists() else []


def _check(answer: Any) -> None:
    if (answer.prefill.status, answer.decode.status) != (200, 200):
        raise LabError(f"a request was answered {answer.prefill.status} / {answer.decode.status}")


@contextmanager
def measuring_pair(folder: Path, tier: str, environment: Mapping[str, str] | None = None) -> Iterator[Blocks]:
    """A pair of this tier with the plugin, its agent draining into a receiver that keeps what comes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "control").write_bytes(bytes([ON]))
    settings = PairSettings(
        VERSION, prefill_tokens=16384, decode_tokens=65536, running_requests=MOST_RUNNING,
        environment={"PAGEWITNESS_TIER": tier, "PAGEWITNESS_RING_BYTES": "128M", **(environment or {})},
    )  # fmt: skip
    run = RunFolder(folder / "run")
    run.make()
    with RecordingReceiver() as receiver, AgentProcess(run, receiver.url, receiver.token):
        with Pair(with_plugin(settings, PLUGIN, {"LAB_OVERHEAD_DIR": str(folder)}), run) as pair:
            with pair.client() as client:
                yield Blocks(client, folder)
