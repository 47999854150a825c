"""From the real engine to the store: nothing that a client wrote or read is in any byte that is kept or posted.

Prompts, answers, request ids and a grammar that does not compile (the engine puts it into its error) hold planted
markers. The rings of a vulnerable pair go through the real agent, first with the receiver gone so that its spool fills,
then to the store, and everything on the way is searched for the markers and for the token ids of the texts.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.store import Store
from lab.captures.capture import Body
from lab.engine.agent_process import AgentProcess
from lab.engine.paths import LabPaths
from lab.engine.recording_receiver import RecordingReceiver
from lab.engine.servers import RunFolder
from lab.engine.tenants import TENANTS
from lab.engine.traffic import Ask, prompt
from tests.engine_hooks.sglang_plugin.on_engine import MARKER, Run, play, requests, rid_of
from tests.support.files import files_below, held_by
from tests.support.stores import fresh_store, shared_data_dir

pytestmark = [pytest.mark.engine, pytest.mark.timeout(500)]

RUN_OF_IDS = 8
"""So many token ids of a text in a row would be content."""


@dataclass
class Trail:
    """Everything that the evidence of one run left behind."""

    run: Run
    rings: list[bytes]
    spool: list[bytes]
    log: bytes
    bodies: tuple[Body, ...]
    store: Store

    def spans(self) -> Iterator[Span]:
        for body in self.bodies:
            for resource in body.message().resource_spans:
                for scope in resource.scope_spans:
                    yield from scope.spans


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trail]:
    files = RunFolder(tmp_path_factory.mktemp("trail"))
    run = play("0.5.19", files.root)
    rings = [ring.read_bytes() for ring in files.rings.glob("*.ring")]
    kept = files.root / "kept"
    shutil.copytree(files.rings, kept)
    with AgentProcess(files, "http://127.0.0.1:9", "nobody-listens") as agent:  # port 9: refused, so it spools
        deadline = time.monotonic() + 60
        while not (spool := [held_by(path) for path in files_below(files.spool)]):
            assert time.monotonic() < deadline, f"nothing was spooled:\n{agent.tail()}"
            time.sleep(0.1)
        agent.stop()
    spool = [held_by(path) for path in files_below(files.spool)]
    shutil.copytree(kept, files.rings, dirs_exist_ok=True)
    with RecordingReceiver() as receiver, AgentProcess(files, receiver.url, receiver.token) as agent:
        agent.wait_drained()
        agent.stop()
    with fresh_store() as store:
        for body in receiver.bodies():
            store.insert_otlp(body.message().SerializeToString())
        yield Trail(run, rings, spool, (files.root / "agent.log").read_bytes(), receiver.bodies(), store)


def needles() -> list[bytes]:
    """What must be nowhere: the planted marker, each tenant's marker (the answers are full of them), request ids."""
    names = [tenant.marker for tenant in TENANTS]
    return [text.encode() for text in [MARKER, *names, *(rid_of(name) for name in requests())]]


def found_in(data: bytes) -> list[bytes]:
    return [needle for needle in needles() if needle in data]


def test_the_markers_really_went_through_the_engine(trail: Trail) -> None:
    """Else the rest would prove nothing: the engine's own log has them, and an answer echoed its tenant's marker."""
    assert MARKER in trail.run.logs["prefill"]
    assert TENANTS[0].marker in trail.run.answers["ordinary"].decode.text
    assert trail.rings
    assert trail.spool
    assert trail.bodies


def test_no_marker_is_in_a_ring(trail: Trail) -> None:
    assert [found_in(ring) for ring in trail.rings] == [[]] * len(trail.rings)


def test_no_marker_is_in_the_agents_spool_or_log(trail: Trail) -> None:
    assert [found_in(part) for part in [*trail.spool, trail.log]] == [[]] * (len(trail.spool) + 1)


def test_no_marker_is_in_a_body_that_the_agent_posted(trail: Trail) -> None:
    assert [found_in(body.message().SerializeToString()) for body in trail.bodies] == [[]] * len(trail.bodies)


def test_no_marker_is_in_the_store_or_its_rejects(trail: Trail) -> None:
    handle = trail.store.handle()
    assert handle.rows("SELECT count() AS facts FROM evidence")[0]["facts"] > 50
    for table in ("evidence", "evidence_rejects"):
        rows = json.dumps(handle.rows(f"SELECT * FROM {table}"), default=str).encode()
        assert found_in(rows) == []
    assert [path for path in files_below(shared_data_dir()) if found_in(held_by(path))] == []


def token_ids(text: str, vocabulary: dict[str, int]) -> list[int]:
    """Ids of a text of one-byte tokens, as the model's tokenizer gives them."""
    return [vocabulary["Ġ" if char == " " else char] for char in text]


def has_run(values: Sequence[int], runs: set[tuple[int, ...]]) -> bool:
    return any(tuple(values[at : at + RUN_OF_IDS]) in runs for at in range(len(values) - RUN_OF_IDS + 1))


def test_no_attribute_holds_a_run_of_token_ids(trail: Trail) -> None:
    tokenizer = json.loads((LabPaths.from_environment().model / "tokenizer.json").read_text())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    filler = prompt(Ask("acme", 400, oversized=True), 0)
    texts = [MARKER, *(part for part in filler.split("]") if len(part) >= RUN_OF_IDS)]
    ids = [token_ids(text, vocabulary) for text in texts]
    runs = {tuple(one[at : at + RUN_OF_IDS]) for one in ids for at in range(len(one) - RUN_OF_IDS + 1)}
    assert len(runs) > 20, "the harness knows too few runs to find one"
    assert has_run([1, 2, *ids[0]], runs), "the harness does not see a run"
    for span in trail.spans():
        for attribute in span.attributes:
            values = [each.int_value for each in attribute.value.array_value.values]
            assert not has_run(values, runs), attribute.key


def test_every_key_of_a_posted_span_is_in_the_contract(trail: Trail) -> None:
    from engine_hooks import conventions

    known = {name for one in conventions.attributes() for name in one.wire_names}
    assert {attribute.key for span in trail.spans() for attribute in span.attributes} <= known
