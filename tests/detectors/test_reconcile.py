"""What a gateway delivered is held against the legs that were seen: a response that nobody recorded is not silence."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.store import Store
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from tests.support.cases import Case, load_case
from tests.support.otlp import export, fact
from tests.support.stores import fresh_store

WHOLE = Path(__file__).parents[2] / "detectors" / "rules" / "read_unwritten_page" / "cases" / "ordinary_request.yaml"
AT = 1_790_000_000_000_000_000


@pytest.fixture(scope="module")
def books() -> Iterator[Store]:
    """A store of this module alone: whether a delivery is still waited for depends on every emitter there is."""
    with fresh_store() as store:
        yield store


def rid_of(case: Case) -> str:
    (rid,) = {f.attributes["pagewitness.rid"] for f in case.facts if "pagewitness.rid" in f.attributes}
    return str(rid)


class Gateway:
    """One life of a gateway, and its agent."""

    def __init__(self, books: Store) -> None:
        self.books = books
        self.boot, self.tenant = uuid.uuid4().hex, uuid.uuid4().hex

    def delivers(self, rid: str | None, **given: Any) -> None:
        said: dict[str, Any] = {"delivery_state": "complete", "http_response_status_code": 200, "rid": rid}
        said |= {"emitter": "edge/gateway", "boot": self.boot, "tenant": self.tenant, "time_ns": AT}
        self.books.insert_otlp(export(fact("pagewitness.delivery", **(said | given))))

    def closes(self) -> None:
        """Its agent's word that all is posted: nothing of it holds the watermark back."""
        said: dict[str, Any] = {"subject_emitter": "edge/gateway", "subject_boot": self.boot, "seq_high_water": 1}
        said |= {"emitter": "edge/agent", "boot": uuid.uuid4().hex, "time_ns": AT, "attested": AT + 10**10}
        self.books.insert_otlp(export(fact("pagewitness.emitter", close="clean", drops=0, hook_errors=0, **said)))

    def judged(self) -> list[tuple[str, list[str]]]:
        """Verdicts and reasons of its tenant's responses, after one more pass."""
        handle = self.books.handle()
        Runner(handle, DetectionSettings()).run_once()
        sql = "SELECT verdict, reasons FROM responses WHERE tenant = {tenant:String}"
        return [(row["verdict"], row["reasons"]) for row in handle.rows(sql, {"tenant": self.tenant})]


@pytest.fixture
def gateway(books: Store) -> Gateway:
    return Gateway(books)


def test_a_delivery_whose_leg_was_seen_adds_nothing(gateway: Gateway) -> None:
    case = load_case(WHOLE)
    gateway.books.insert_otlp(export(*case.facts))
    gateway.delivers(rid_of(case))
    gateway.closes()
    assert gateway.judged() == []


def test_a_delivery_of_which_no_leg_was_seen_is_an_unknown_response_of_its_tenant(gateway: Gateway) -> None:
    gateway.delivers(uuid.uuid4().hex)
    gateway.closes()
    assert gateway.judged() == [("unknown", ["leg_not_seen"])]


def test_it_is_pending_while_its_leg_can_still_come(gateway: Gateway) -> None:
    gateway.delivers(uuid.uuid4().hex)
    assert gateway.judged() == [("pending", ["leg_not_seen"])]
    gateway.closes()
    assert gateway.judged() == [("unknown", ["leg_not_seen"])]


def test_a_leg_that_comes_after_all_takes_its_place(gateway: Gateway) -> None:
    case = load_case(WHOLE)
    gateway.delivers(rid_of(case))
    gateway.closes()
    assert gateway.judged() == [("unknown", ["leg_not_seen"])]
    gateway.books.insert_otlp(export(*case.facts))
    assert gateway.judged() == []


def test_the_same_delivery_again_changes_nothing(gateway: Gateway) -> None:
    rid = uuid.uuid4().hex
    for _ in range(2):
        gateway.delivers(rid)
        gateway.closes()
        gateway.judged()
    sql = "SELECT count() AS n FROM response_versions WHERE rid = {rid:String}"
    assert gateway.books.handle().rows(sql, {"rid": rid}) == [{"n": 1}]


@pytest.mark.parametrize(
    "given",
    [
        {"http_response_status_code": 400},  # refused, perhaps before any scheduler saw it
        {"delivery_state": "failed", "http_response_status_code": None},
        {"rid": None},  # several choices: the engine drew ids of its own
    ],
)
def test_what_need_not_have_a_leg_is_not_missed(gateway: Gateway, given: dict[str, Any]) -> None:
    gateway.delivers(**({"rid": uuid.uuid4().hex} | given))
    gateway.closes()
    assert gateway.judged() == []


HALVES = """
title: two requests in one room, of the first only its prefill leg, of the second only its decode leg
source: docs/evidence.md
rooms: {d2: 1}
facts:
  - p1 admission.admitted need=40
  - p1 end.failed
  - d2 admission.admitted need=40
  - d2 transfer.reserved pages=10-12 prompt=40
  - d2 transfer.committed prompt=40
  - d2 read.first length=41
  - d2 release.immediate pages=10-12 written=40-41
  - d2 response.length in=40 out=1 delivered=1
  - d2 end.finished
expect:
  findings: []
  verdicts: {d2: unknown}
"""


def test_a_prefill_leg_that_counts_as_anothers_answers_for_no_delivery(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(HALVES)
    case = load_case(path)
    gateway.books.insert_otlp(export(*case.facts))
    rids = {str(one.attributes["pagewitness.rid"]) for one in case.facts if "pagewitness.rid" in one.attributes}
    for seq, rid in enumerate(sorted(rids), start=1):
        gateway.delivers(rid, seq=seq)
    gateway.closes()
    assert gateway.judged() == [("unknown", ["leg_not_seen"])]
