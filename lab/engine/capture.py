"""Records a capture: one run of a story on one engine version, with our hooks, our agent, and the truth beside them.

Only the ring folder crosses the border of the pair's network namespace: the agent reads it outside and posts to a
receiver that keeps every body. When the pair is down and the rings are drained, truth and traffic are checked for what
the story is for, and only then something is written.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from engine_hooks.conventions import CONTRACT_VERSION
from engine_hooks.version import VERSION
from lab.captures.capture import Body, Capture
from lab.engine import checks, evidence_checks, truth, truth_records
from lab.engine.agent_process import AgentProcess
from lab.engine.errors import LabError
from lab.engine.install import require_installed
from lab.engine.pair import ROLES, Pair
from lab.engine.paths import REPOSITORY, LabPaths
from lab.engine.progress import Say, say_on_stderr
from lab.engine.published import published_traffic, published_truth
from lab.engine.recording_receiver import RecordingReceiver
from lab.engine.servers import PairSettings, RunFolder, command_line
from lab.engine.stage import Stage
from lab.engine.stories import STORIES
from lab.engine.stories.story import Story
from lab.engine.traffic import Outcome, Sender

MAX_BYTES = 1_000_000
"""Largest capture, all files together."""


def default_folder(story: Story, version: str) -> Path:
    """Where the capture of this story on this version is kept."""
    return REPOSITORY / "lab" / "captures" / f"sglang-{version}-{story.name}"


def record_all(paths: LabPaths | None = None, say: Say = say_on_stderr) -> None:
    """Record every capture that is kept, each in its place.

    One that fails, as `record` does, leaves its place as it was, and the others are recorded all the same. Raises
    LabError at the end, with what each of those said.
    """
    failed = []
    for story in STORIES.values():
        for version in story.versions:
            say(f"story {story.name!r} on {version}: {story.about}")
            try:
                record(story, version, default_folder(story, version), paths, say)
            except LabError as error:
                say(str(error))
                failed.append(f"{story.name} on {version}: {error}")
    if failed:
        raise LabError("\n".join([f"{len(failed)} captures were not recorded:", *failed]))


def record(
    story: Story, version: str, folder: Path, paths: LabPaths | None = None, say: Say = say_on_stderr
) -> Capture:
    """Run a story on this engine version and write the capture into `folder`.

    Raises LabError when the run does not show what the story is for, says which condition failed, and keeps the files
    of the run; nothing is written into `folder` then.
    """
    paths = paths or LabPaths.from_environment()
    require_installed(paths, version)
    paths.runs.mkdir(parents=True, exist_ok=True)
    run = RunFolder(Path(tempfile.mkdtemp(prefix=f"capture-{version}-{story.name}-", dir=paths.runs)))
    settings = story.settings(version)
    bodies, outcomes = _run(story, settings, run, paths, say)
    say("joining what both memories held")
    records = truth_records.load(run.truth)
    checked = checks.Run(records, truth.join(records), tuple(outcomes))
    found = checks.faults(checked, story.checks(version)) + evidence_checks.faults(bodies, settings.ranks)
    if found:
        listed = "\n".join(f"  {fault}" for fault in found)
        raise LabError(f"this run is no capture:\n{listed}\nIts files are in {run.root}")
    capture = Capture(
        name=folder.name,
        manifest=_manifest(story, settings, paths, bodies, checked),
        bodies=bodies,
        truth=published_truth(checked.truth, outcomes),
        traffic=published_traffic(outcomes),
    )
    capture.save(folder)
    _check_size(folder)
    say(f"wrote {folder}: {capture.manifest['counts']}")
    return capture


def _run(
    story: Story, settings: PairSettings, run: RunFolder, paths: LabPaths, say: Say
) -> tuple[tuple[Body, ...], list[Outcome]]:
    run.make()
    with RecordingReceiver() as receiver, AgentProcess(run, receiver.url, receiver.token) as agent:
        with Pair(settings, run, paths, say=say) as pair:
            with pair.client() as client:
                stage = Stage(client, Sender(client, secrets.token_hex(4)), run.truth)
                story.tell(stage)
            for outcome in stage.outcomes:
                _tell(outcome, say)
            _check_deaths(pair, story.dies)
        agent.wait_drained()
        agent.stop()
        return receiver.bodies(), sorted(stage.outcomes, key=lambda outcome: outcome.rid)


def _check_deaths(pair: Pair, expected: tuple[str, ...]) -> None:
    dead = pair.dead_servers()
    for role in set(dead) - set(expected):
        raise LabError(f"the {role} server died on the way; the end of its log:\n{pair.tail(role)}")
    for role in set(expected) - set(dead):
        raise LabError(f"the {role} server lives on, and should not")


def _tell(outcome: Outcome, say: Say) -> None:
    if not outcome.ordinary:
        kind = outcome.did or ("oversized" if outcome.oversized else "fake")
        markers = ", ".join(f"{count} times {name}'s marker" for name, count in outcome.echoed.items())
        say(
            f"{kind} request of {outcome.tenant}: prefill {outcome.prefill_status}, decode {outcome.status}"
            + (f", its answer holds {markers}" if markers else "")
        )


def _manifest(
    story: Story, settings: PairSettings, paths: LabPaths, bodies: tuple[Body, ...], run: checks.Run
) -> dict[str, Any]:
    affected = run.affected()
    now = datetime.datetime.now(datetime.UTC)
    return {
        "recorded": now.isoformat(timespec="seconds"),
        "story": {"name": story.name, "about": story.about},
        "engine": "sglang",
        "engine_version": settings.version,
        "model": settings.model_name,
        "hooks": {"version": VERSION, "contract": CONTRACT_VERSION, **_hooks_source()},
        "pools": {
            "prefill_tokens": settings.prefill_tokens,
            "decode_tokens": settings.decode_tokens,
            "page_size": settings.page_size,
        },
        "ranks": settings.ranks,
        "command": f"python -m lab.engine capture --story {story.name} --version {settings.version}",
        "servers": {role: _placeholders(command_line(role, settings, paths), paths) for role in ROLES},
        "counts": {
            "requests": len(run.outcomes),
            "responses": len(run.truth.responses),
            "affected": len(affected),
            "foreign_slots": sum(len(response.foreign) for response in affected),
            "facts": evidence_checks.count_spans(bodies),
            "bodies": len(bodies),
        },
    }


def _placeholders(command: list[str], paths: LabPaths) -> str:
    return " ".join(command).replace(str(paths.root), "$LAB")


def _hooks_source() -> dict[str, Any]:
    """Which hooks recorded: a digest of their source, and the commit they were at, where git knows it."""
    digest = hashlib.sha256()
    for path in sorted((REPOSITORY / "engine_hooks").rglob("*.py")):
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes() + b"\0")
    return {
        "source_sha256": digest.hexdigest(),
        "commit": _git("rev-parse", "--verify", "HEAD"),
        "modified": bool(_git("status", "--porcelain", "--", "engine_hooks")),
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _check_size(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MAX_BYTES:
        raise LabError(f"the capture in {folder} has {size} bytes, more than {MAX_BYTES}: shorten the story")
