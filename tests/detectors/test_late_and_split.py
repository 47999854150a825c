"""Evidence that comes between two questions of a pass, that takes a verdict back, or that ranks disagree about."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.store import Store
from detectors.boots import load_boots
from detectors.clocks import Clocks
from detectors.queries import Queries
from detectors.requests import Requests
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from tests.support.cases import load_case
from tests.support.otlp import Fact, export, fact
from tests.support.toy_pair import Emitter, ToyLeg, ToyPair

CASES = Path(__file__).parents[2] / "detectors" / "rules" / "read_unwritten_page" / "cases"
WHOLE = CASES / "ordinary_request.yaml"
LEAK = CASES / "oversized_prompt.yaml"
TURNS = CASES.parents[1] / "derived" / "cases" / "ordinary_turns.yaml"
AT = 1_790_000_000_000_000_000


class Interrupted:
    """A store into which evidence arrives just before one of a pass's questions."""

    def __init__(self, store: Store, before: str, arrives: Sequence[Sequence[Fact]]) -> None:
        self._store, self._handle = store, store.handle()
        self._before, self._arrives = before, arrives

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        if self._before in sql:
            for facts in self._arrives:
                self._store.insert_otlp(export(*facts))
            self._arrives = ()
        return self._handle.rows(sql, params)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._handle.insert(table, columns, rows)

    def command(self, sql: str) -> None:
        self._handle.command(sql)


def judged(store: Queries) -> dict[str, tuple[str, list[str]]]:
    """Verdict and reasons of every response, by uid, after one more pass."""
    Runner(store, DetectionSettings()).run_once()
    rows = store.rows("SELECT response_uid, verdict, reasons FROM responses")
    return {row["response_uid"]: (row["verdict"], row["reasons"]) for row in rows}


def test_a_delivery_that_arrives_between_two_questions_of_a_pass_is_read_by_the_next(opened: Store) -> None:
    case = load_case(WHOLE)
    delivery = fact(
        "pagewitness.delivery",
        emitter="edge/gateway",
        boot=uuid.uuid4().hex,
        tenant=uuid.uuid4().hex,
        time_ns=AT,
        delivery_state="complete",
        http_response_status_code=200,
        rid=uuid.uuid4().hex,
    )
    judged(Interrupted(opened, "leg_ordinal IS NOT NULL GROUP BY uid", [[delivery], case.facts]))
    assert sorted(reasons for _, reasons in judged(opened.handle()).values()) == [[], ["leg_not_seen"]]


@pytest.mark.parametrize(
    ("later", "reasons"),
    [
        ({"pagewitness.hooks.missing": ["page.read"]}, ["rule_blind"]),
        ({"pagewitness.page.size": 32}, ["decode_config_unknown"]),
    ],
)
def test_a_configuration_that_comes_late_takes_a_clean_verdict_back(
    opened: Store, later: dict[str, Any], reasons: list[str]
) -> None:
    case = load_case(WHOLE)
    opened.insert_otlp(export(*case.facts))
    assert judged(opened.handle()) == {case.uids["d1"]: ("clean", [])}
    config = next(f for f in case.facts if f.attributes.get("pagewitness.node.role") == "decode")
    opened.insert_otlp(export(config.but(extra={"pagewitness.seq": 1000} | later)))
    assert judged(opened.handle()) == {case.uids["d1"]: ("unknown", reasons)}


def test_a_second_emitter_with_a_responses_uid_does_not_make_its_violation_disappear(opened: Store) -> None:
    case = load_case(LEAK)
    opened.insert_otlp(export(*case.facts))
    assert judged(opened.handle())[case.uids["d1"]][0] == "violation"
    config = next(f for f in case.facts if f.attributes.get("pagewitness.node.role") == "prefill")
    admission = next(f for f in case.facts if f.uid == case.uids["d1"] and f.span == "pagewitness.request.admission")
    other: dict[str, Any] = {"emitter": "elsewhere/prefill", "boot": uuid.uuid4().hex}
    opened.insert_otlp(export(replace(config, **other), replace(admission, **other)))
    assert case.uids["d1"] in judged(opened.handle())


@pytest.mark.parametrize(
    ("differs", "expected"),
    [
        ({}, ("clean", [])),
        ({"tenant.id": "c" * 32}, ("unknown", ["tenant_mismatch"])),
        ({"pagewitness.tenant.key": "k9"}, ("unknown", ["tenant_mismatch"])),
        ({"pagewitness.rid": "c" * 32}, ("unknown", ["decode_contradicted", "prefill_contradicted"])),
        ({"pagewitness.traffic": "internal"}, ("unknown", ["decode_contradicted", "prefill_contradicted"])),
    ],
)
def test_two_ranks_are_clean_only_of_one_request(
    opened: Store, differs: dict[str, Any], expected: tuple[str, list[str]]
) -> None:
    case = load_case(WHOLE)
    facts = [rank_of_two(f, 0) for f in case.facts]
    second = [rank_of_two(f, 1) for f in twin(case.facts, "-1")]
    facts += [f.but(extra={k: v for k, v in differs.items() if k in f.attributes}) for f in second]
    opened.insert_otlp(export(*facts))
    verdict, reasons = judged(opened.handle())[case.uids["d1"]]
    assert verdict == expected[0]
    assert set(expected[1]) <= set(reasons)


def test_one_uid_in_two_lives_of_an_emitter_is_joined_in_each(opened: Store) -> None:
    case = load_case(WHOLE)
    opened.insert_otlp(export(*case.facts, *twin(case.facts, "")))
    store = opened.handle()
    requests = Requests(store, load_boots(store), Clocks(store, DetectionSettings().clock_error))
    assert len({join.decode.boot for join in requests.joins(case.uids["d1"])}) == 2


def twin(facts: Sequence[Fact], suffix: str) -> list[Fact]:
    """The same facts from another life of each emitter, of another name where a suffix is given."""
    other = {f.boot: uuid.uuid4().hex for f in facts} | {f.emitter: f.emitter + suffix for f in facts}
    sessions = {str(f.attributes.get("pagewitness.transfer.session", "")) for f in facts} - {""}
    other |= {session: session + suffix for session in sessions}  # a rank has a session of its own
    return [
        replace(
            f,
            emitter=other[f.emitter],
            boot=other[f.boot],
            attributes={k: other.get(v, v) if isinstance(v, str) else v for k, v in f.attributes.items()},
        )
        for f in facts
    ]


def rank_of_two(one: Fact, rank: int) -> Fact:
    """A fact as one of two ranks records it."""
    said = {"pagewitness.rank": rank, "pagewitness.ranks": 2}
    return one.but(extra={name: value for name, value in said.items() if name in one.attributes})


@pytest.mark.parametrize("session", ["", "none"])
def test_tokens_that_no_read_accounts_for_are_not_clean_where_no_prefill_leg_was_needed(
    opened: Store, session: str
) -> None:
    assert alone_leg(opened, session, delivered=64) == ("unknown", ["decode_incoherent"])


@pytest.mark.parametrize("session", ["", "none"])
def test_a_leg_without_a_prefill_node_that_delivered_nothing_is_clean(opened: Store, session: str) -> None:
    assert alone_leg(opened, session, delivered=0) == ("clean", [])


def alone_leg(opened: Store, session: str, delivered: int) -> tuple[str, list[str]]:
    """Verdict on a decode leg that no prefill node served: never given pages (""), or by the fake backend."""
    decode, agent = (Emitter(f"host/{name}", uuid.uuid4().hex, [AT]) for name in ("decode", "agent"))
    leg = ToyLeg(uuid.uuid4().hex, uuid.uuid4().hex)
    node: dict[str, Any] = {"node_role": "decode", "rank": 0, "ranks": 1, "page_size": 16, "input_limit": 4096}
    decode.emit("pagewitness.node.config", hooks_missing=["transfer.landed"], node_id=uuid.uuid4().hex, **node)
    asked: dict[str, Any] = {"room": 0, "rid": uuid.uuid4().hex, "tokens_need": 48}
    decode.emit("pagewitness.request.admission", leg, admission_state="admitted", admission_reason="none", **asked)
    if session:
        receives: dict[str, Any] = {"transfer_side": "receive", "prompt_tokens": 48}
        where: dict[str, Any] = {
            "pages": [1, 2, 3],
            "page_count": 3,
            "prefix_tokens": 0,
            "room": 0,
            "transfer_session": session,
        }
        decode.emit("pagewitness.transfer", leg, transfer_status="reserved", **receives, **where)
        decode.emit("pagewitness.transfer", leg, transfer_status="committed", **receives)
    ToyPair._release(decode, leg, [1, 2, 3, 4, 5, 6, 7], 48, 48 + delivered)
    usage: dict[str, Any] = {
        "gen_ai_usage_input_tokens": 48,
        "gen_ai_usage_output_tokens": delivered,
        "tokens_delivered": delivered,
    }
    decode.emit("pagewitness.response", leg, finish="length", **usage)
    ToyPair._end(decode, leg, "finished", 0, 0)
    word: dict[str, Any] = {
        "subject_emitter": decode.name,
        "subject_boot": decode.boot,
        "seq_high_water": len(decode.facts),
    }
    agent.emit("pagewitness.emitter", close="clean", drops=0, hook_errors=0, attested=AT + 10**10, **word)
    opened.insert_otlp(export(*decode.facts, *agent.facts))
    return judged(opened.handle())[leg.uid]


def test_what_another_node_files_under_a_legs_uid_moves_its_response_to_nobody(opened: Store) -> None:
    """Only the node that drew a uid knows what became of it; a second one under that uid gets nothing but a doubt."""
    case = load_case(LEAK)
    opened.insert_otlp(export(*case.facts))
    uid = case.uids["d1"]
    sql = "SELECT verdict, tenant, emitter FROM responses WHERE response_uid = {uid:String}"
    judged(opened.handle())
    before = opened.handle().rows(sql, {"uid": uid})
    assert [row["verdict"] for row in before] == ["violation"]
    emitter, boot, thief = "other/decode", uuid.uuid4().hex, "e" * 32
    config = next(one for one in case.facts if one.attributes.get("pagewitness.node.role") == "decode")
    forged = [replace(config, emitter=emitter, boot=boot).but(extra={"pagewitness.node.id": "f" * 32})]
    for ordinal, one in enumerate([one for one in case.facts if one.uid == uid] * 3, start=1):
        extra = {"pagewitness.seq": ordinal + 1, "pagewitness.leg.ordinal": ordinal, "tenant.id": thief}
        forged.append(replace(one, emitter=emitter, boot=boot).but(extra=extra))
    opened.insert_otlp(export(*forged))
    judged(opened.handle())
    assert opened.handle().rows(sql, {"uid": uid}) == before
    clean = load_case(WHOLE)
    opened.insert_otlp(export(*clean.facts))
    assert judged(opened.handle())[clean.uids["d1"]] == ("clean", [])
    stolen = next(one for one in clean.facts if one.uid == clean.uids["d1"])
    extra = {"pagewitness.seq": 900, "pagewitness.leg.ordinal": 1, "tenant.id": thief}
    opened.insert_otlp(export(replace(stolen, emitter=emitter, boot=boot).but(extra=extra)))
    assert judged(opened.handle())[clean.uids["d1"]] == ("unknown", ["decode_contradicted"])


def test_what_reused_a_response_waits_for_its_verdict(opened: Store) -> None:
    """All of its own evidence is there and vouched for; of the response whose KV it reused, one fact is under way."""
    case = load_case(TURNS)
    ends = [one for one in case.facts if one.span == "pagewitness.request.end"]
    late = next(one for one in ends if one.emitter == "case/prefill")
    running = [one.but(extra={"pagewitness.close": "open"}) if "emitter" in one.span else one for one in case.facts]
    opened.insert_otlp(export(*(one for one in running if one is not late)))
    said = judged(opened.handle())
    assert said[case.uids["d1"]] == ("pending", ["prefill_leg_running"])
    assert said[case.uids["d2"]] == ("pending", ["prefix_pending"])
    opened.insert_otlp(export(late))
    assert {verdict for verdict, _ in judged(opened.handle()).values()} == {"clean"}


def test_what_reused_a_response_is_open_again_once_that_is_no_longer_clean(opened: Store) -> None:
    case = load_case(TURNS)
    opened.insert_otlp(export(*case.facts))
    assert {verdict for verdict, _ in judged(opened.handle()).values()} == {"clean"}
    read = next(one for one in case.facts if one.uid == case.uids["d1"] and one.span == "pagewitness.page.read")
    opened.insert_otlp(export(read.but(extra={"pagewitness.read.tokens": 59})))
    said = judged(opened.handle())
    assert said[case.uids["d1"]] == ("unknown", ["decode_contradicted"])
    assert said[case.uids["d2"]] == ("unknown", ["prefix_unvouched"])
