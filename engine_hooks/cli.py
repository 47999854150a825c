"""The console script `pagewitness-hooks`: `agent` and `doctor`.

Exit codes: 0 = done, nothing wrong found; 1 = error, or something wrong found; 2 = usage; 4 = evidence will be
incomplete. Data on stdout, messages on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from engine_hooks.doctor import examine
from engine_hooks.doctor_report import as_json, as_table, exit_code
from engine_hooks.engine_check import BACKENDS, look
from engine_hooks.settings import SETTINGS, SettingsError, load
from engine_hooks.version import VERSION

_EXAMPLES = """examples:
  pagewitness-hooks doctor              with the engine's own Python, on its host
  pagewitness-hooks doctor --json --backend nixl
  pagewitness-hooks agent --url https://witness.example:4318 --token-file /etc/pagewitness/token
  pagewitness-hooks agent --once        send what is there, then exit (1 if the receiver does not take it all)

exit codes:
  0 done, nothing wrong found   1 error, or something wrong found   2 usage
  4 nothing wrong, but evidence will be incomplete here: not an all-clear
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
    from engine_hooks.agent_command import run_agent  # not for the doctor: it says what the agent lacks

    return run_agent(options)


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
        description="Checks versions, settings, keys, directories, rings, the receiver, and which hook points attach "
        "to the engine of this Python, which is imported and not started. Changes nothing.",
        epilog=_EXAMPLES + "\nsettings:\n" + _settings_help("both"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--output", choices=("table", "json"), default="table", help="how to print (default: table)")
    doctor.add_argument("--json", action="store_true", help="the same as --output json")
    doctor.add_argument(
        "--backend", choices=BACKENDS, default="mooncake", help="the engine's transfer backend (default: mooncake)"
    )
    doctor.add_argument("--offline", action="store_true", help="do not ask the receiver")
    return parser


def _settings_help(scope: str) -> str:
    return "".join(
        f"  {setting.name}\n      {setting.help} [{setting.kind}; default: {setting.default or 'none'}]\n"
        for setting in SETTINGS
        if setting.read_in(scope)
    )


def _doctor(options: argparse.Namespace) -> int:
    checks = examine(os.environ, ask_receiver=not options.offline)
    try:
        tier = load(os.environ).tier
    except SettingsError:
        tier = "control"  # what is wrong with the settings is among the checks
    print("looking at the engine, if it is here: its import takes some seconds", file=sys.stderr)
    engine, found = look(os.environ, tier, options.backend)
    checks += found
    if options.json or options.output == "json":
        print(as_json(checks, engine))
    else:
        print(as_table(checks, engine, colours=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return exit_code(checks)


if __name__ == "__main__":
    sys.exit(main())
