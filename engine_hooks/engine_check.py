"""The doctor's look at the engine: which hook points would attach here, in its tier and with its transfer backend.

The engine is imported, never started, in a process of its own (`sglang_plugin.survey`): its modules take seconds, print
what they like, and can fail in ways that no `except` holds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from typing import Any

from engine_hooks.doctor import BLIND, FAIL, OK, Check

BACKENDS = ("mooncake", "nixl", "mori", "ascend", "none")
"""Transfer backends of the engine; `none` is a node that does both roles."""
_GROUP, _PLUGIN = "sglang.srt.plugins", "pagewitness"
_SECONDS = 300.0

Survey = dict[str, Any]
"""What `sglang_plugin.survey` prints."""


def look(environ: Mapping[str, str], tier: str, backend: str) -> tuple[Survey | None, list[Check]]:
    """Survey the engine of this interpreter, and judge it; (None, checks) where there is none or it cannot be imported.

    Changes nothing. Takes as long as the import of the engine does.
    """
    if util.find_spec("sglang") is None:
        return None, [Check("sglang", BLIND, "not importable here", "run the doctor with the engine's own Python")]
    checks = [_plugin(environ)]
    found, problem = _ask(environ, tier, backend)
    if found is None:
        advice = "does the engine itself start with this Python?"
        return None, [*checks, Check("hook points", FAIL, f"the engine cannot be imported: {problem}", advice)]
    return found, [*checks, *_judge(found)]


def _plugin(environ: Mapping[str, str]) -> Check:
    names = {entry.name for entry in metadata.entry_points(group=_GROUP)}
    allowed = {name.strip() for name in environ.get("SGLANG_PLUGINS", "").split(",") if name.strip()}
    if _PLUGIN not in names:
        return Check(
            "plugin", FAIL, f"no entry point {_PLUGIN} in {_GROUP}",
            "the engine will not load the hooks: pip install pagewitness-hooks into its environment",
        )  # fmt: skip
    if allowed and _PLUGIN not in allowed:
        return Check("plugin", FAIL, f"SGLANG_PLUGINS does not name {_PLUGIN}", "add it: the engine leaves it out")
    return Check("plugin", OK, f"the engine finds {_PLUGIN} in {_GROUP}")


def _ask(environ: Mapping[str, str], tier: str, backend: str) -> tuple[Survey | None, str]:
    """The survey, or None and what went wrong."""
    command = [sys.executable, "-m", "engine_hooks.sglang_plugin.survey", tier, backend]
    try:
        done = subprocess.run(
            command, env=dict(environ), capture_output=True, text=True, timeout=_SECONDS, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"no end after {_SECONDS:.0f} s"
    if done.returncode == 0:
        found: Survey = json.loads(done.stdout)
        return found, ""
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return None, said[-1].strip() if said else f"exit status {done.returncode}"


def _judge(found: Survey) -> Iterator[Check]:
    where = f"SGLang {found['version']}, {found['tier']} tier, {found['backend']}"
    refused = [hook["name"] for hook in found["hooks"] if hook["problem"]]
    count = f"{found['attached']} of {len(found['hooks'])} attach ({where})"
    if refused:
        yield Check("hook points", BLIND, count, "the table below says why; the engine runs all the same")
    else:
        yield Check("hook points", OK, count)
    if not found["known"]:
        yield Check(
            "engine version", BLIND, f"{found['version']} is not in the table of hook points",
            "they are matched by signature alone: use a version that this release knows, or compare with care",
        )  # fmt: skip
    blind = blind_facts(found)
    if blind:
        yield Check(
            "facts", BLIND, f"no supplier here: {', '.join(blind)}",
            "rules that need them call no response of this node clean",
        )  # fmt: skip


def blind_facts(found: Survey) -> list[str]:
    """What the node's list of missing things names beside hook points: the facts without a supplier."""
    names = {hook["name"] for hook in found["hooks"]}
    return [word for word in found["missing"] if word not in names and word != "version.unknown"]
