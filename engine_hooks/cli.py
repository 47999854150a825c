"""The console script `pagewitness-hooks`: `agent` and `doctor`.

Exit codes: 0 = done, nothing wrong found; 1 = error, or something wrong found; 2 = usage. Data on stdout, messages on
stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from engine_hooks.agent import Agent
from engine_hooks.claim import Claim, ClaimedError
from engine_hooks.doctor import FAIL, WARN, Check, examine
from engine_hooks.exporter import Exporter
from engine_hooks.heartbeat import Heartbeats
from engine_hooks.log import to_stderr
from engine_hooks.settings import SETTINGS, Settings, SettingsError, load
from engine_hooks.spool import Spool
from engine_hooks.transport import ExportError, Transport
from engine_hooks.version import VERSION

DONE, ERROR, USAGE = 0, 1, 2
ONCE_SECONDS = 30.0

_EXAMPLES = """examples:
  pagewitness-hooks doctor
  pagewitness-hooks agent --url https://witness.example:4318 --token-file /etc/pagewitness/token
  pagewitness-hooks agent --once        send what is there, then exit (1 if the receiver does not take it all)

exit codes:
  0 done, nothing wrong found   1 error, or something wrong found   2 usage
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return its exit code."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:  # argparse exits by itself: 0 after --help, 2 for usage
        return int(stop.code or 0)
    if options.command == "doctor":
        return _doctor(options)
    return _agent(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pagewitness-hooks",
        description="Posts what the hooks in an LLM engine record, and checks a host's set-up.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{agent,doctor}")
    agent = commands.add_parser(
        "agent",
        help="drain the rings of this host to the receiver, until SIGTERM",
        description="Drains the rings of this host to the receiver. On SIGTERM or SIGINT it sends or spools what is "
        "there and exits 0. One agent a host; never start it from the engine.",
        epilog=_EXAMPLES + "\nsettings (a flag wins over its variable):\n" + _settings_help("agent"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    agent.add_argument("--ring-dir", metavar="DIR", help="PAGEWITNESS_RING_DIR")
    agent.add_argument("--url", metavar="URL", dest="export_url", help="PAGEWITNESS_EXPORT_URL")
    agent.add_argument("--token-file", metavar="FILE", dest="export_token_file", help="PAGEWITNESS_EXPORT_TOKEN_FILE")
    agent.add_argument("--spool-dir", metavar="DIR", help="PAGEWITNESS_SPOOL_DIR")
    agent.add_argument("--once", action="store_true", help="send what is there, then exit")
    doctor = commands.add_parser(
        "doctor",
        help="say what on this host would keep evidence from being recorded or posted",
        description="Checks versions, settings, keys, directories, rings and the receiver. Changes nothing.",
        epilog=_EXAMPLES + "\nsettings:\n" + _settings_help("both"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--output", choices=("table", "json"), default="table", help="how to print (default: table)")
    doctor.add_argument("--offline", action="store_true", help="do not ask the receiver")
    return parser


def _settings_help(scope: str) -> str:
    return "".join(
        f"  {setting.name}\n      {setting.help} [{setting.kind}; default: {setting.default or 'none'}]\n"
        for setting in SETTINGS
        if scope == "both" or setting.scope in (scope, "both")
    )


def _agent(options: argparse.Namespace) -> int:
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
    return DONE if complete else _fail("the receiver does not have everything yet; nothing is lost, run again", ERROR)


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
    return Agent(
        settings.ring_dir,
        Exporter(transport),
        Spool(settings.spool_dir, settings.spool_bytes),
        Heartbeats(f"{settings.emitter}/agent"),
        heartbeat_seconds=settings.heartbeat_seconds,
    )


def _doctor(options: argparse.Namespace) -> int:
    checks = examine(os.environ, ask_receiver=not options.offline)
    if options.output == "json":
        print(json.dumps({"checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _print_table(checks)
    return ERROR if any(check.status == FAIL for check in checks) else DONE


def _print_table(checks: Sequence[Check]) -> None:
    colours = {FAIL: "\033[31m", WARN: "\033[33m"} if sys.stdout.isatty() and "NO_COLOR" not in os.environ else {}
    width = max(len(check.name) for check in checks)
    for check in checks:
        colour = colours.get(check.status, "")
        plain = "\033[0m" if colour else ""
        print(f"{colour}{check.status:<4}{plain}  {check.name:<{width}}  {check.detail}")
        if check.status != "ok" and check.advice:
            print(f"      {'':<{width}}  -> {check.advice}")


def _fail(problem: object, code: int) -> int:
    print(f"pagewitness-hooks: {problem}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
