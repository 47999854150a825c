"""Passes over time: what comes late is judged, what is repeated changes nothing, what can still come is pending."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.store import Store
from detectors.queries import Queries
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from tests.support.cases import Case, load_case
from tests.support.otlp import Fact, export

CASES = Path(__file__).parents[2] / "detectors" / "rules"
WHOLE = CASES / "read_unwritten_page" / "cases" / "ordinary_request.yaml"
LEAK = CASES / "read_unwritten_page" / "cases" / "oversized_prompt.yaml"
Post = Callable[[list[Fact]], None]


def run(store: Queries, after: timedelta = timedelta()) -> None:
    Runner(store, DetectionSettings(), now=lambda: datetime.now(UTC) + after).run_once()


def response(store: Queries, case: Case) -> dict[str, Any]:
    (row,) = store.rows("SELECT * FROM responses WHERE response_uid = {uid:String}", {"uid": case.uids["d1"]})
    return row


def findings(store: Queries, case: Case) -> set[str]:
    rows = store.rows("SELECT rule FROM findings WHERE response_uid = {uid:String}", {"uid": case.uids["d1"]})
    return {row["rule"] for row in rows}


def test_a_response_is_pending_until_its_agent_vouches_and_then_clean(store: Queries, post: Post) -> None:
    case = load_case(WHOLE)
    post([fact for fact in case.facts if fact.span != "pagewitness.emitter"])
    run(store)
    assert response(store, case)["verdict"] == "pending"
    post([fact for fact in case.facts if fact.span == "pagewitness.emitter"])
    run(store)
    row = response(store, case)
    assert (row["verdict"], row["clean_for"]) == ("clean", "6 rules, control tier; queued, not landed")


def test_a_fact_that_comes_after_the_verdict_turns_unknown_into_clean(store: Queries, post: Post) -> None:
    case = load_case(WHOLE)
    late = next(fact for fact in case.facts if fact.span == "pagewitness.page.release")
    post([fact for fact in case.facts if fact is not late])
    run(store)
    assert response(store, case)["verdict"] == "unknown"
    post([late])
    run(store)
    assert response(store, case)["verdict"] == "clean"


def test_an_emitter_whose_agent_falls_silent_makes_pending_unknown(store: Queries, post: Post) -> None:
    case = load_case(WHOLE)
    post([fact for fact in case.facts if fact.span != "pagewitness.emitter"])
    run(store)
    run(store, after=timedelta(minutes=5))
    row = response(store, case)
    assert (row["verdict"], row["reasons"]) == ("unknown", ["decode_emitter_silent", "prefill_emitter_silent"])


def test_the_same_evidence_again_changes_no_answer(store: Queries, post: Post) -> None:
    case = load_case(LEAK)
    post(case.facts)
    run(store)
    before = response(store, case)
    post(list(reversed(case.facts)))
    run(store)
    assert response(store, case) == before


def test_a_violation_stands_before_the_request_has_ended(store: Queries, post: Post) -> None:
    case = load_case(LEAK)
    first_read = next(i for i, fact in enumerate(case.facts) if fact.span == "pagewitness.page.read")
    post(case.facts[: first_read + 1])
    run(store)
    row = response(store, case)
    assert (row["verdict"], row["ended"], row["reasons"]) == ("violation", None, [])


def test_two_contents_of_one_fact_are_never_clean(store: Queries, post: Post) -> None:
    case = load_case(WHOLE)
    forged = [
        fact.but(extra={"pagewitness.chunk.tokens": 39})
        for fact in case.facts
        if "pagewitness.chunk.tokens" in fact.attributes
    ]
    post(case.facts + forged)
    run(store)
    row = response(store, case)
    assert row["verdict"] == "unknown"
    assert "prefill_contradicted" in row["reasons"]


def test_a_finding_that_late_evidence_refutes_is_withdrawn(opened: Store) -> None:
    store = opened.handle()
    case = load_case(CASES / "transfer_short" / "cases" / "refused_is_not_short.yaml")
    refusal = next(i for i, f in enumerate(case.facts) if f.attributes.get("pagewitness.transfer.status") == "refused")
    before = case.facts[:refusal]
    withheld = [fact for fact in case.facts[refusal:] if fact.span != "pagewitness.emitter"]
    # the agents' last words are dated two minutes on, and decode has not been heard of since it reserved
    words = [fact for fact in case.facts if fact.span == "pagewitness.emitter"]
    later = [f.but(extra={"pagewitness.attested": f.attributes["pagewitness.attested"] + 120 * 10**9}) for f in words]
    opened.insert_otlp(export(*before, *later))
    run(store)
    assert findings(store, case) == {"transfer_short"}
    opened.insert_otlp(export(*withheld))
    run(store)
    assert findings(store, case) == set()


def test_a_pass_over_nothing_says_so(opened: Store) -> None:
    report = Runner(opened.handle(), DetectionSettings()).run_once()
    assert (report.judged, report.changed) == (0, 0)


def test_an_agent_that_is_heard_again_reopens_what_its_silence_had_made_unknown(opened: Store) -> None:
    store = opened.handle()
    case = load_case(WHOLE)
    words = [fact for fact in case.facts if fact.span == "pagewitness.emitter"]
    opened.insert_otlp(export(*(fact for fact in case.facts if fact not in words)))
    moment = [datetime.now(UTC) + timedelta(minutes=5)]
    runner = Runner(store, DetectionSettings(), now=lambda: moment[0])
    runner.run_once()
    assert response(store, case)["verdict"] == "unknown"
    moment[0] = datetime.now(UTC)
    opened.insert_otlp(export(*words))
    runner.run_once()
    assert response(store, case)["verdict"] == "clean"


def test_a_decode_leg_of_which_every_fact_was_lost_leaves_an_unknown_response(opened: Store) -> None:
    store = opened.handle()
    case = load_case(WHOLE)
    opened.insert_otlp(export(*(fact for fact in case.facts if fact.uid != case.uids["d1"])))
    run(store)
    (row,) = store.rows("SELECT verdict, reasons, tenant FROM responses")
    assert (row["verdict"], row["reasons"]) == ("unknown", ["decode_leg_not_seen"])
    assert row["tenant"] in {fact.attributes.get("tenant.id") for fact in case.facts}


def test_a_decode_leg_that_comes_late_takes_the_place_of_its_prefill_leg(opened: Store) -> None:
    store = opened.handle()
    case = load_case(WHOLE)
    late = [fact for fact in case.facts if fact.uid == case.uids["d1"]]
    opened.insert_otlp(export(*(fact for fact in case.facts if fact not in late)))
    run(store)
    opened.insert_otlp(export(*late))
    run(store)
    assert store.rows("SELECT response_uid, verdict FROM responses") == [
        {"response_uid": case.uids["d1"], "verdict": "clean"}
    ]


@pytest.mark.parametrize(
    ("span", "absurd"),
    [
        ("pagewitness.request.end", {"pagewitness.leg.facts": 2**63 - 1}),
        ("pagewitness.request.end", {"pagewitness.leg.ordinal": 2**63 - 1}),
        ("pagewitness.transfer", {"pagewitness.prefix.tokens": 2**40}),
        ("pagewitness.transfer", {"pagewitness.chunk.tokens": 2**63 - 1}),
        ("pagewitness.request.end", {"pagewitness.queued.tokens": 2**63 - 1}),
        ("pagewitness.node.config", {"pagewitness.page.size": 0}),
        ("pagewitness.node.config", {"pagewitness.page.size": 2**63 - 1}),
    ],
)
def test_an_absurd_number_costs_its_own_response_the_clean_verdict_and_no_other(
    opened: Store, span: str, absurd: dict[str, int]
) -> None:
    store = opened.handle()
    hostile, honest = load_case(WHOLE), load_case(LEAK)
    (name,) = absurd
    bent = [f.but(extra=absurd) if f.span == span and name in f.attributes else f for f in hostile.facts]
    opened.insert_otlp(export(*bent, *honest.facts))
    run(store)
    assert response(store, hostile)["verdict"] != "clean"
    assert response(store, honest)["verdict"] == "violation"


def test_a_boot_that_changes_its_mind_about_what_it_is_supports_nothing(store: Queries, post: Post) -> None:
    case = load_case(WHOLE)
    config = next(f for f in case.facts if f.span == "pagewitness.node.config")
    again = config.but(extra={"pagewitness.seq": 1000, "pagewitness.page.size": 32})
    post([*case.facts, again])
    run(store)
    assert response(store, case)["verdict"] == "unknown"


def test_a_hook_that_was_missing_once_leaves_the_boot_blind(store: Queries, post: Post) -> None:
    case = load_case(CASES / "read_unwritten_page" / "cases" / "blind_node.yaml")
    config = next(f for f in case.facts if f.attributes.get("pagewitness.hooks.missing"))
    later = config.but(extra={"pagewitness.seq": 1000, "pagewitness.hooks.missing": []})
    post([*case.facts, later])
    run(store)
    assert response(store, case)["reasons"] == ["rule_blind"]


def test_cached_pages_of_requests_that_nobody_vouched_for_are_not_one_tenants(store: Queries, post: Post) -> None:
    case = load_case(CASES / "read_unwritten_page" / "cases" / "prefix_of_another_tenant.yaml")
    nobody = [
        f.but(without=["pagewitness.tenant.key"], extra={"tenant.id": "unattributed"})
        if "tenant.id" in f.attributes
        else f
        for f in case.facts
    ]
    post(nobody)
    run(store)
    (row,) = store.rows(
        "SELECT verdict, reasons FROM responses WHERE response_uid = {uid:String}", {"uid": case.uids["d2"]}
    )
    assert (row["verdict"], row["reasons"]) == ("unknown", ["prefix_unattributed"])


def test_a_configuration_that_comes_last_reopens_what_lacked_it(opened: Store) -> None:
    store = opened.handle()
    case = load_case(WHOLE)
    configs = [f for f in case.facts if f.span == "pagewitness.node.config"]
    opened.insert_otlp(export(*(f for f in case.facts if f not in configs)))
    run(store)
    assert response(store, case)["verdict"] == "unknown"
    opened.insert_otlp(export(*configs))
    run(store)
    assert store.rows("SELECT response_uid, verdict FROM responses") == [
        {"response_uid": case.uids["d1"], "verdict": "clean"}
    ]
