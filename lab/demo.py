"""`make demo`: a leak recorded on the real engine, replayed through the real receiver, and answered as it would be.

What is printed on stdout is the story; progress goes to stderr. The last line is one JSON object of figures that were
computed in this run.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from lab.captures.capture import Capture, CaptureError
from lab.engine.errors import LabError
from lab.engine.progress import Say, say_on_stderr
from lab.replay import replay, wait_until_judged
from lab.score import Score, score
from lab.service import LAB_KEYS, ServiceProcess
from lab.telling import tell_clients, tell_next, tell_side_by_side, title

CAPTURES = Path(__file__).resolve().parent / "captures"
DEFAULT_CAPTURE = CAPTURES / "sglang-0.5.19-oversized"
ROLES = ("recipient", "donor")


def demo(
    capture: Annotated[Path, typer.Option("--capture", help="Folder of the capture to replay.")] = DEFAULT_CAPTURE,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Keep the service's data in this new folder, to go on asking.")
    ] = None,
) -> None:
    """Replay a recorded leak and say who was affected. Exit code 0: the answers equal the truth; 1: they do not."""
    raise typer.Exit(run_demo(capture, keep))


def run_demo(folder: Path, keep: Path | None = None, say: Say = say_on_stderr) -> int:
    """The demo over one capture. Raises LabError or CaptureError where it cannot be told to its end."""
    if keep is not None and keep.exists():
        raise LabError(f"{keep} exists: name a folder that does not")
    capture = Capture.load(folder)
    tenants = list(dict.fromkeys(request["tenant"] for request in capture.traffic["requests"]))
    work = Path(tempfile.mkdtemp(prefix="pagewitness-demo-"))
    try:
        names = work / "tenants.txt"
        names.write_text("".join(f"{tenant}\n" for tenant in tenants), encoding="utf-8")
        settings = LAB_KEYS | {"PAGEWITNESS_TENANTS_FILE": str(names)}
        tell_clients(capture)
        with ServiceProcess(work / "data", settings=settings) as service:
            say(f"`pagewitness serve` runs, pid {service.file.pid}, {service.file.url}")
            replay(capture, service, say)
            wait_until_judged(service, say)
            _tell_tenants(service, tenants)
            title("$ notify operator pairs")
            _show(service.notify("operator", "pairs").stdout)
            result = score(service, capture.truth, tenants)
        tell_side_by_side(capture, result)
        if keep is not None:
            shutil.move(work / "data", keep)
        tell_next(keep, folder != DEFAULT_CAPTURE)
    finally:
        shutil.rmtree(work)
    return _verdict(result)


def _tell_tenants(service: ServiceProcess, tenants: Sequence[str]) -> None:
    """What `notify affected` prints for each tenant, in both roles."""
    questions = [("affected", "--tenant", tenant, "--role", role) for tenant in tenants for role in ROLES]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for question, done in zip(questions, pool.map(lambda words: service.notify(*words), questions), strict=True):
            title(f"$ notify {' '.join(question)}")
            if done.returncode in (1, 2):
                raise LabError(done.stderr.strip())
            _show(done.stdout)


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _verdict(result: Score) -> int:
    print(json.dumps(result.as_json()))
    return 0 if result.false == result.missed == 0 else 1


def main(argv: Sequence[str] | None = None, program: str = "python -m lab.demo") -> int:
    """Run the demo with these arguments, by default the process's. Returns the exit code."""
    from notify.output import run_app, say

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(demo)
    try:
        return run_app(app, program, argv)
    except (LabError, CaptureError) as error:
        say(f"{program}: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
