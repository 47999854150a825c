"""The demo's story in words: what the clients saw, and beside it what evidence and memory say of the same responses."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.captures.capture import Capture
from lab.engine.tenants import BY_NAME
from lab.score import Score
from lab.service import LAB_KEYS
from notify.answers import OperatorResponseAnswer
from notify.render.operator_table import tenant_words
from notify.render.screen import Screen


def title(text: str) -> None:
    """A heading of the story."""
    screen = Screen()
    screen.line()
    screen.line(text, "bold cyan")
    screen.line("-" * min(len(text), screen.width), "dim")


def tell_clients(capture: Capture) -> None:
    """What happened, as the clients saw it. No evidence is used here."""
    manifest, requests = capture.manifest, capture.traffic["requests"]
    screen = Screen()
    title("What the clients saw")
    tenants = {request["tenant"] for request in requests}
    screen.line(
        f"Recorded on {manifest['recorded'][:10]} from a real {manifest['engine']} {manifest['engine_version']} pair, "
        f"prefill and decode, on a CPU: {len(requests)} requests of {len(tenants)} tenants. The prefill node's KV pool "
        f"holds {manifest['pools']['prefill_tokens']} tokens, the decode node's {manifest['pools']['decode_tokens']}. "
        "Each tenant's prompts hold a marker of its own, and the model echoes what it attends to."
    )
    for request in requests:
        if request["oversized"]:
            screen.line()
            screen.line(
                f"{request['tenant']} sent a prompt that the prefill node cannot hold, without a marker in it. Prefill "
                f"said {_status(request['prefill_status'])}, decode answered {_status(request['status'])}, "
                f"{request['output_tokens']} tokens. {markers_words(request['foreign_markers'])}",
                "red" if request["foreign_markers"] else "",
            )
    ordinary = [request for request in requests if not request["oversized"]]
    leaked = sum(bool(request["foreign_markers"]) for request in ordinary)
    screen.line()
    screen.line(
        f"The other {len(ordinary)} requests: {sum(one['status'] == 200 for one in ordinary)} answered with HTTP 200, "
        f"{leaked} with a marker of somebody else. From here on only the evidence is used: page numbers, lengths and "
        "keyed digests, not a word of any prompt or answer."
    )


def tell_side_by_side(capture: Capture, result: Score) -> None:
    """Each affected response three times: what its client saw, what the evidence says, what memory really held."""
    screen = Screen()
    title("Beside each other: client, evidence, memory")
    requests = {request["rid"]: request for request in capture.traffic["requests"]}
    truths = {response["rid"]: response for response in capture.truth["responses"]}
    told = {detail.rid: detail for detail in result.details}
    concerned = dict.fromkeys([*told, *(rid for _tenant, rid in sorted(result.true_recipients))])
    if not concerned:
        screen.line("No response read KV of anybody else, neither by the evidence nor by memory content.")
    for rid in concerned:
        request = requests.get(rid, {})
        screen.line(f"A response to {request.get('tenant', 'a request that is not in the traffic')}:", "bold")
        screen.line(f"client    {markers_words(request.get('foreign_markers', {}))}", indent=2, hang=10)
        evidence = _donors(_by_evidence(told[rid])) if rid in told else "lists no such response"
        screen.line(f"evidence  {evidence}", indent=2, hang=10)
        memory = _donors(_by_memory(truths[rid])) if rid in truths else "shows no such response"
        screen.line(f"memory    {memory}", indent=2, hang=10)
    screen.line()
    slots = result.slots
    screen.line(
        "The truth was read from memory content, slot by slot, and knows nothing of the evidence. Against it: "
        f"{len(result.recipients & result.true_recipients)} of {result.truth} affected responses are listed, "
        f"{len(result.donors & result.true_donors)} of {len(result.true_donors)} exposed ones, "
        f"{len(slots.slots) - len(slots.missed_slots)} of {len(slots.slots)} foreign slots with their donor; "
        f"{len(slots.false_slots)} slots and {len(result.recipients - result.true_recipients)} responses are listed "
        f"that should not be; {result.unknown} responses are unknown.",
        "green" if result.false == result.missed == 0 else "red",
    )


def tell_next(kept: Path | None, other_capture: bool) -> None:
    """What to run next."""
    screen = Screen()
    title("Next")
    if kept is not None:
        _suggest(
            screen,
            "Go on asking about this run, with the lab's public keys",
            *(f"export {name}={value}" for name, value in LAB_KEYS.items()),
            f"{_command('pagewitness')} serve --data-dir {kept}",
            f"{_command('notify')} affected --data-dir {kept} --tenant kestrel",
        )
    else:
        _suggest(screen, "The same, and its evidence kept, to go on asking", "make demo ARGS='--keep FOLDER'")
    if not other_capture:
        _suggest(
            screen, "The same on a fixed engine", "make demo ARGS='--capture lab/captures/sglang-0.5.23-oversized'"
        )
    _suggest(screen, "Live, on the engine itself, vulnerable and fixed (Linux, root)", "make engine-demo")
    _suggest(screen, "The service, for evidence of your own", f"{_command('pagewitness')} serve")
    _suggest(screen, "The question that it is for", f"{_command('notify')} affected --tenant NAME")


def _command(name: str) -> str:
    """A command of ours as it can be typed here: by its path where its folder is not on PATH."""
    if shutil.which(name):
        return name
    beside = Path(sys.executable).with_name(name)
    return os.path.relpath(beside) if beside.exists() else name


def _suggest(screen: Screen, what: str, *commands: str) -> None:
    screen.line(f"{what}:")
    for command in commands:
        screen.line(command, "bold", indent=4)


def _status(status: int) -> str:
    return f"HTTP {status}" if status else "nothing"


def markers_words(markers: Mapping[str, int]) -> str:
    """What an answer held of other tenants' text, by their markers."""
    if not markers:
        return "Its answer held no marker of anybody else."
    listed = ", ".join(f"{BY_NAME[name].marker} {count} times" for name, count in markers.items())
    return f"Its answer held other customers' text: {listed}."


def _donors(slots: Mapping[str, int]) -> str:
    total = sum(slots.values())
    listed = ", ".join(f"{name} {count}" for name, count in sorted(slots.items(), key=lambda item: (-item[1], item[0])))
    return f"{total} token slots of {listed}" if total else "no foreign token slot"


def _by_evidence(detail: OperatorResponseAnswer) -> Counter[str]:
    slots: Counter[str] = Counter()
    for read in detail.reads:
        slots[tenant_words(read.donor) if read.donor else "nobody"] += read.slot_end - read.slot_start
    return slots


def _by_memory(response: Mapping[str, Any]) -> Counter[str]:
    slots: Counter[str] = Counter()
    for read in response["reads"]:
        slots[read["owner_tenant"]] += read["slot_end"] - read["slot_start"]
    return slots
