"""Posts a capture to a running service as its agents did, and waits until detection has judged all of it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from lab.captures.capture import Body, Capture
from lab.engine.errors import LabError
from lab.engine.progress import Say
from lab.service import ServiceProcess
from notify.answers import StatusAnswer

_AT_ONCE = 6
_POLL_SECONDS = 0.2


def prefix_of(emitter: str) -> str:
    """The part of an emitter's name that a token is bound to: the host."""
    return emitter.rpartition("/")[0]


def replay(capture: Capture, service: ServiceProcess, say: Say) -> None:
    """Mint a token for each emitter of the capture and post every body over HTTP.

    Raises LabError for an answer that is not an unreserved 200, and for a body whose emitters need two tokens: no agent
    posts one.
    """
    prefixes = sorted({prefix_of(emitter) for emitter in capture.emitters()})
    tokens = {prefix: service.mint(prefix) for prefix in prefixes}
    say(f"minted {len(tokens)} token(s) for {len(capture.emitters())} emitters: {', '.join(capture.emitters())}")

    def post(numbered: tuple[int, Body]) -> None:
        number, body = numbered
        owners = {prefix_of(emitter) for emitter in body.emitters()}
        if len(owners) != 1:
            raise LabError(f"body {number} of {capture.name} is of {len(owners)} hosts: no token covers it")
        _accepted(service.post(body.data, tokens[owners.pop()], _headers(body)), number)

    # several at a time, as several hosts would: order of arrival carries no meaning
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(post, enumerate(capture.bodies, start=1)):
            pass
    say(f"posted {len(capture.bodies)} export requests to {service.file.url}/v1/traces; each was stored whole")


def _headers(body: Body) -> dict[str, str]:
    headers = {"Content-Type": body.content_type}
    return headers | {"Content-Encoding": body.content_encoding} if body.content_encoding else headers


def _accepted(answer: httpx.Response, number: int) -> None:
    if answer.status_code != httpx.codes.OK:
        raise LabError(f"the receiver answered body {number} with HTTP {answer.status_code}: {answer.text[:300]}")
    said = ExportTraceServiceResponse()
    said.ParseFromString(answer.content)
    if said.partial_success.rejected_spans:
        raise LabError(f"the receiver rejected facts of body {number}: {said.partial_success.error_message}")


def wait_until_judged(service: ServiceProcess, say: Say, timeout_seconds: float = 60.0) -> StatusAnswer:
    """Wait until all that was stored is judged and nothing is pending; after the timeout, take what there is.

    Raises LabError if detection fails.
    """
    deadline = time.monotonic() + timeout_seconds
    told = -1
    while True:
        status = service.status()
        if status.detection.last_failure:
            raise LabError(f"detection failed: {status.detection.last_failure}")
        counts = status.counts
        judged = counts.violation + counts.clean + counts.unknown
        if judged != told:
            say(f"{judged} responses judged, {counts.pending} pending, {status.unjudged} facts to go")
            told = judged
        if judged and not status.unjudged and not counts.pending:
            return status
        if time.monotonic() > deadline:
            say(f"not everything was judged within {timeout_seconds:.0f} s")
            return status
        time.sleep(_POLL_SECONDS)
