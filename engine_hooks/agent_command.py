"""`pagewitness-hooks agent`: sets the agent up, and runs it until it is told to stop."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from engine_hooks.agent import Agent
from engine_hooks.claim import Claim, ClaimedError
from engine_hooks.engine_count import EngineCounts
from engine_hooks.exit_codes import ERROR, OK, USAGE
from engine_hooks.exporter import Exporter
from engine_hooks.heartbeat import Heartbeats
from engine_hooks.log import to_stderr
from engine_hooks.settings import Settings, SettingsError, load
from engine_hooks.spool import Spool
from engine_hooks.transport import ExportError, Transport

ONCE_SECONDS = 30.0


def run_agent(options: argparse.Namespace) -> int:
    """Run the agent as these options and the environment say; returns the exit code."""
    to_stderr()
    try:
        settings = load(
            scope="agent",
            ring_dir=_absolute(options.ring_dir),
            export_url=options.export_url,
            export_token_file=_absolute(options.export_token_file),
            spool_dir=_absolute(options.spool_dir),
        )
        transport = Transport(settings.export_url, settings.export_token_file)
    except (SettingsError, ExportError) as error:
        return _fail(error, USAGE)
    try:
        claims = [Claim(directory) for directory in {settings.ring_dir, settings.spool_dir}]
        agent = _make_agent(settings, transport)
    except (ClaimedError, OSError) as error:
        return _fail(error, ERROR)
    print(f"posting the rings in {settings.ring_dir} to {settings.export_url}", file=sys.stderr)
    complete = _run(agent, once=options.once)
    print(f"posted {agent.posted} facts", file=sys.stderr)
    for claim in claims:
        claim.close()
    return OK if complete else _fail(_incomplete(agent), ERROR)


def _incomplete(agent: Agent) -> str:
    if agent.set_aside:
        return (
            f"the receiver does not have everything: corrupt rings, set aside as *.corrupt: {agent.set_aside}; what "
            "they still held is lost; run again for the rest"
        )
    return "the receiver does not have everything yet; what it lacks is still in the rings or the spool, run again"


def _run(agent: Agent, *, once: bool) -> bool:
    """Whether all that was asked is done. A signal ends the loop in good order."""
    if once:
        return agent.settle(ONCE_SECONDS)
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        agent.run(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return True


def _absolute(path: str | None) -> str | None:
    return path and str(Path(path).absolute())


def _make_agent(settings: Settings, transport: Transport) -> Agent:
    counts = EngineCounts(settings.engine_metrics_urls)
    counts.start(threading.Event())
    return Agent(
        settings.ring_dir,
        Exporter(transport),
        Spool(settings.spool_dir, settings.spool_bytes),
        Heartbeats(f"{settings.emitter}/agent", transport.clock_offset, counts),
        heartbeat_seconds=settings.heartbeat_seconds,
    )


def _fail(problem: object, code: int) -> int:
    print(f"pagewitness-hooks: {problem}", file=sys.stderr)
    return code
