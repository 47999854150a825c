"""`make engine-demo`: the leak and its answer live, on a vulnerable engine and on a fixed one.

For each version: the real service, the real agent, a real pair with our plugin, ordinary traffic of several tenants and
one prompt that prefill's pool cannot hold. Story on stdout, progress on stderr, figures of this run on the last line.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.captures.capture import CaptureError
from lab.engine import install, truth, truth_records
from lab.engine.agent_process import AgentProcess
from lab.engine.errors import LabError
from lab.engine.pair import Pair
from lab.engine.paths import LabPaths
from lab.engine.progress import Say, say_on_stderr
from lab.engine.published import published_truth
from lab.engine.servers import EMITTER_PREFIX, PairSettings, RunFolder
from lab.engine.stories.oversized import FIRST_VICTIM, fill_prefill, forget_on_decode, warm_up
from lab.engine.tenants import BY_NAME
from lab.engine.traffic import Ask, Outcome, Sender, play
from lab.replay import wait_until_judged
from lab.score import Score, score
from lab.service import LAB_KEYS, ServiceProcess
from lab.telling import markers_words, title
from notify.errors import CommandError
from notify.exit_codes import ExitCode
from notify.render.screen import Screen

VULNERABLE, FIXED = "0.5.19", "0.5.23"
OVERSIZED_TOKENS = 1500
ANSWER_SECONDS = 10.0
"""How soon after its last token an affected response has to be listed."""

_STALL_SECONDS = 2  # below the waiting timeout of the lab's decode nodes
_GIVE_UP_SECONDS = 60.0
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Shown:
    """One version: the score of its answers, transfers reported as stranded, and how soon the leak was listed."""

    score: Score
    stranded: int
    seconds_to_answer: float | None


def run_engine_demo(say: Say = say_on_stderr) -> int:
    """The whole demo. Exit status 0: the answers were the truth and came in time. Raises LabError if it cannot run."""
    paths = LabPaths.from_environment()
    install.install(paths, say)
    paths.runs.mkdir(parents=True, exist_ok=True)
    vulnerable = _show(VULNERABLE, paths, say)
    fixed = _show(FIXED, paths, say)
    figures = {
        "vulnerable": {"affected": vulnerable.score.affected, "truth": vulnerable.score.truth},
        "fixed": {"affected": fixed.score.affected, "truth": fixed.score.truth, "stranded": fixed.stranded},
        "seconds_to_answer": vulnerable.seconds_to_answer,
    }
    good = (
        vulnerable.score.truth > 0
        and fixed.score.truth == 0
        and fixed.stranded > 0
        and not any(one.score.false or one.score.missed for one in (vulnerable, fixed))
        and vulnerable.seconds_to_answer is not None
        and vulnerable.seconds_to_answer <= ANSWER_SECONDS
    )
    print(json.dumps(figures))
    return 0 if good else 1


def _show(version: str, paths: LabPaths, say: Say) -> Shown:
    run = RunFolder(Path(tempfile.mkdtemp(prefix=f"demo-{version}-", dir=paths.runs)))
    run.make()
    names = run.root / "tenants.txt"
    names.write_text("".join(f"{name}\n" for name in BY_NAME), encoding="utf-8")
    settings = LAB_KEYS | {
        "PAGEWITNESS_TENANTS_FILE": str(names),
        "PAGEWITNESS_STALL_SECONDS": str(_STALL_SECONDS),
    }
    title(f"SGLang {version}: prefill and decode, with the plugin")
    with ServiceProcess(run.root / "data", detect_every=0.5, settings=settings) as service:
        say(f"`pagewitness serve` runs, pid {service.file.pid}, {service.file.url}")
        token = service.mint(EMITTER_PREFIX)
        with AgentProcess(run, service.file.url, token) as agent:
            outcomes, seconds = _play(version, run, paths, service, say)
            agent.wait_drained()
        wait_until_judged(service, say)
        truth_of_run = _truth(run, outcomes)
        asked = list(dict.fromkeys(outcome.tenant for outcome in outcomes))
        shown = Shown(score(service, truth_of_run, asked), len(_stranded(service)), seconds)
        _tell(shown, service)
    shutil.rmtree(run.root)
    return shown


def _play(
    version: str, run: RunFolder, paths: LabPaths, service: ServiceProcess, say: Say
) -> tuple[list[Outcome], float | None]:
    """The traffic of one pair; and, if the oversized answer was affected, how soon that was listed."""
    screen = Screen()
    with Pair(PairSettings(version=version, truth=True), run, paths, say=say) as pair, pair.client() as client:
        sender = Sender(client, secrets.token_hex(4))
        ordinary = [*warm_up(), *forget_on_decode(), *fill_prefill()]  # until no slot of either pool is untouched
        say(f"sending {len(ordinary)} ordinary requests of {len({ask.tenant for ask in ordinary})} tenants")
        outcomes = play(ordinary, sender)
        leaked = sum(bool(outcome.echoed) for outcome in outcomes)
        screen.line(f"{len(outcomes)} ordinary requests were answered, {leaked} with a marker of somebody else.")
        big = sender.send(Ask(FIRST_VICTIM, OVERSIZED_TOKENS, oversized=True))
        answered = time.monotonic()
        outcomes.append(big)
        screen.line(
            f"{FIRST_VICTIM} sent {OVERSIZED_TOKENS} tokens, more than prefill's pool holds, without a marker. Prefill "
            f"said {big.prefill_status}, decode {big.status}. {markers_words(big.echoed)}",
            "red" if big.echoed else "",
        )
        return outcomes, _seconds_until_listed(service, answered) if big.echoed else None


def _seconds_until_listed(service: ServiceProcess, answered: float) -> float | None:
    """From `answered`, when the client had its last token, until `notify affected` has listed a response.

    The command is run when the service knows of one: to run it over and over would take the CPU from what it waits for.
    """
    while time.monotonic() - answered < _GIVE_UP_SECONDS:
        if service.status().counts.violation:
            done = service.notify("affected", "--tenant", FIRST_VICTIM)
            seconds = round(time.monotonic() - answered, 2)
            title(f"$ notify affected --tenant {FIRST_VICTIM}, {seconds} s after the last token")
            print(done.stdout, end="", flush=True)
            return seconds if done.returncode == ExitCode.FOUND else None
        time.sleep(_POLL_SECONDS)
    return None


def _truth(run: RunFolder, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return published_truth(truth.join(truth_records.load(run.truth)), outcomes)


def _stranded(service: ServiceProcess) -> list[str]:
    """Responses with a transfer that was taken up and never came."""
    with service.client() as client:
        listed = client.get("operator/responses", verdict="all")["responses"]
        found = {row["response_id"]: client.get(f"responses/{row['response_id']}")["findings"] for row in listed}
    return [
        response
        for response, findings in found.items()
        if any((one["rule"], one["variant"]) == ("transfer_short", "stalled") for one in findings)
    ]


def _tell(shown: Shown, service: ServiceProcess) -> None:
    screen = Screen()
    if shown.seconds_to_answer is None:
        title(f"$ notify affected --tenant {FIRST_VICTIM}")
        print(service.notify("affected", "--tenant", FIRST_VICTIM).stdout, end="", flush=True)
    else:
        title("$ notify operator pairs")
        print(service.notify("operator", "pairs").stdout, end="", flush=True)
    for response in _stranded(service):
        title(f"$ notify response {response[:12]} --tenant {FIRST_VICTIM}")
        print(service.notify("response", response, "--tenant", FIRST_VICTIM).stdout, end="", flush=True)
    screen.line()
    slots = shown.score.slots
    screen.line(
        f"Affected by memory content: {shown.score.truth}; by the evidence: {shown.score.affected}. Foreign slots: "
        f"{len(slots.slots)}, of which {len(slots.missed_slots)} are missed; {len(slots.false_slots)} are listed that "
        f"are none. Stranded transfers, which are no leak: {shown.stranded}.",
        "bold",
    )


def main() -> int:
    """Run the demo; returns the exit code."""
    try:
        return run_engine_demo()
    except (LabError, CaptureError, CommandError) as error:
        print(f"engine demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
