"""The command `notify` against the real service: what a person sees, and what a script gets."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from rich.cells import cell_len

from lab.service import ServiceProcess, environment
from notify.answers import (
    AffectedAnswer,
    DonorAnswer,
    OperatorResponseAnswer,
    PairsAnswer,
    RecipientAnswer,
    ResponseAnswer,
    ResponsesAnswer,
)
from tests.notify.asking import Notify, asking, serving
from tests.support.scenarios import HOSTILE, LEAK, SOURCE
from tests.support.verdicts import RULE_SET


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def notify(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Notify:
    return asking(service, monkeypatch, capsys)


def affected(notify: Notify, tenant: str, *arguments: str) -> RecipientAnswer | DonorAnswer:
    done = notify("affected", "--tenant", tenant, "--output", "json", *arguments)
    adapter: TypeAdapter[RecipientAnswer | DonorAnswer] = TypeAdapter(AffectedAnswer)
    answer = adapter.validate_json(done.out)
    assert (done.code, done.err) == (answer.exit_code, "")
    return answer


def unfit(text: str, columns: int) -> list[str]:
    """Lines that are too wide, or hold a control or format character."""
    return [
        line
        for line in text.split("\n")
        if cell_len(line) > columns or any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in line)
    ]


@pytest.mark.parametrize(("tenant", "code"), [("acme", 3), ("calm", 0), ("unsure", 4), ("nobody-of-that-name", 2)])
def test_the_exit_code_of_the_process_says_what_the_answer_means(
    service: ServiceProcess, tenant: str, code: int
) -> None:
    assert service.notify("affected", "--tenant", tenant).returncode == code


def test_an_unknown_tenant_is_said_on_stderr_and_nothing_is_listed(notify: Notify) -> None:
    done = notify("affected", "--tenant", "acmee", "--output", "csv")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("notify: unknown tenant 'acmee': no evidence names it")


def test_json_is_the_documented_object(notify: Notify) -> None:
    answer = affected(notify, "acme")
    assert isinstance(answer, RecipientAnswer)
    assert answer.responses[0].response_id == LEAK
    assert answer.counts.model_dump() == {"violation": 3, "clean": 1, "unknown": 1, "pending": 0}
    assert answer.not_listed == {"no_writer": 1}
    assert answer.evidence.clean_for == RULE_SET


def test_a_donor_sees_its_own_response_and_a_count(notify: Notify) -> None:
    answer = affected(notify, "zenith", "--role", "donor")
    assert isinstance(answer, DonorAnswer)
    assert [(row.response_id, row.foreign_responses) for row in answer.responses] == [(SOURCE, 1)]


def test_a_window_and_scopes_are_passed_on(notify: Notify) -> None:
    assert len(affected(notify, "acme", "--scope", "all").responses) == 3
    assert affected(notify, "acme", "--scope", "no_writer").scopes == ["no_writer"]
    early = affected(notify, "acme", "--from", "2026-09-01T10:00", "--to", "2026-09-01T10:02Z")
    assert [row.response_id for row in early.responses] == [LEAK]
    assert affected(notify, "acme", "--from", "2h").responses[0].ended is None


@pytest.mark.parametrize("role", ["recipient", "donor"])
@pytest.mark.parametrize(
    "tenant", ["acme", "zenith", "calm", "unsure", HOSTILE], ids=lambda name: name.strip("\x1b")[:6]
)
def test_a_table_fits_the_screen_and_holds_nothing_that_controls_it(notify: Notify, tenant: str, role: str) -> None:
    done = notify("affected", "--tenant", tenant, "--role", role, "--scope", "all", columns=80)
    assert done.out
    assert not unfit(done.out, 80)


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["operator", "pairs"],
        ["operator", "tenants"],
        ["operator", "responses"],
        ["operator", "responses", "--unattributed"],
        ["response", LEAK],
        ["response", LEAK, "--tenant", "acme"],
    ],
    ids=" ".join,
)
def test_every_other_table_fits_as_well(notify: Notify, command: list[str]) -> None:
    done = notify(*command)
    assert done.out
    assert not unfit(done.out, 80)


def test_a_table_always_says_what_is_unknown_and_how_sure_it_is(notify: Notify) -> None:
    shown = notify("affected", "--tenant", "acme").out
    for words in (
        "acme: 2 responses received foreign KV",
        "1 clean, 1 unknown, 0 pending",
        f"Clean for: {RULE_SET}.",
        "1 x peer_not_seen",
        "Incomplete: 1 response unknown.",
        "Exit code 3: ",
    ):
        assert words in shown


def test_csv_has_a_row_a_response_and_the_counts_on_stderr(notify: Notify) -> None:
    done = notify("affected", "--tenant", "acme", "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert rows[0]["response_id"] == LEAK
    assert len(rows) == 2
    assert "1 unknown" in done.err


def test_ndjson_has_an_object_a_response_and_the_summary_last(notify: Notify) -> None:
    done = notify("affected", "--tenant", "acme", "--output", "ndjson")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert [record["record"] for record in records] == ["response", "response", "summary"]
    assert records[-1]["counts"]["unknown"] == 1


def test_the_operators_pairs_are_titled_and_named_where_names_are_known(notify: Notify) -> None:
    shown = notify("operator", "pairs")
    assert shown.out.startswith("Operator's view, not for customers")
    assert "zenith" in shown.out
    assert "k2:" in shown.out  # HOSTILE is on no list
    assert shown.code == 3
    answer = PairsAnswer.model_validate_json(notify("operator", "pairs", "-o", "json").out)
    assert len(answer.pairs) == 3


def test_responses_of_all_tenants_are_for_the_operator(notify: Notify) -> None:
    done = notify("operator", "responses", "--verdict", "pending", "--unattributed", "-o", "json")
    answer = ResponsesAnswer.model_validate_json(done.out)
    assert [(row.tenant.pseudonym, row.verdict) for row in answer.responses] == [("unattributed", "pending")]
    assert done.code == 4


def test_a_response_is_shown_to_its_tenant_without_donors_and_to_the_operator_with_them(notify: Notify) -> None:
    own = notify("response", LEAK[:9], "--tenant", "acme", "-o", "json")
    assert ResponseAnswer.model_validate_json(own.out).response_id == LEAK
    assert "zenith" not in own.out
    assert SOURCE not in own.out
    (read,) = OperatorResponseAnswer.model_validate_json(notify("response", LEAK, "-o", "json").out).reads
    assert (read.donor and read.donor.name, read.donor_response_id) == ("zenith", SOURCE)
    assert notify("response", LEAK, "--tenant", "calm").code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["affected", "--tenant", "acme", "--from", "soon"], "is not a time"),
        (["affected", "--tenant", "acme", "--from", "1h", "--to", "2h"], "the window is empty"),
        (["affected", "--tenant", "acme", "--scope", "some"], "unknown scope some"),
        (["affected", "--tenant", "acme", "--role", "victim"], "victim"),
        (["affected", "--tenant", "acme", "--output", "xml"], "xml"),
        (["affected", "--tenant", "unattributed"], "notify operator responses --unattributed"),
        (["affected", "--tenant", ""], "name is empty"),
        (["affected"], "--tenant"),
        (["operator", "responses", "--verdict", "guilty"], "unknown verdict guilty"),
        (["response", "0000000"], "no response '0000000'"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_question_that_makes_no_sense_is_exit_2_with_a_sentence(
    notify: Notify, arguments: list[str], said: str
) -> None:
    done = notify(*arguments, columns=200)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_wrong_token_is_exit_1_and_says_so(service: ServiceProcess, notify: Notify) -> None:
    done = notify("status", "--url", service.file.url, "--token", "x" * 43)
    assert (done.code, done.out) == (1, "")
    assert "refused the responder token" in done.err


def test_a_url_and_a_token_reach_a_service_of_another_machine(
    service: ServiceProcess, notify: Notify, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PAGEWITNESS_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PAGEWITNESS_URL", service.file.url)
    monkeypatch.setenv("PAGEWITNESS_TOKEN", service.file.token)
    assert notify("status").code == 0


def test_without_a_service_it_is_exit_1_and_says_how_to_start_one(notify: Notify, tmp_path: Path) -> None:
    done = notify("affected", "--tenant", "acme", "--data-dir", str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("notify: no pagewitness service: start one with `pagewitness serve")


@pytest.mark.parametrize("output", ["table", "json", "csv", "ndjson"])
def test_a_reader_that_goes_away_is_no_error(service: ServiceProcess, output: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "notify", "affected", "--tenant", "acme", "--output", output]
    values = environment({"PAGEWITNESS_DATA_DIR": str(service.data_dir)})
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(command, env=values, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert "BrokenPipe" not in done.stderr
    assert "Traceback" not in done.stderr


def test_the_service_never_logs_a_tenants_name(service: ServiceProcess, notify: Notify) -> None:
    notify("affected", "--tenant", "a-name-that-stands-out")
    assert "a-name-that-stands-out" not in service.log.read_text(encoding="utf-8")
