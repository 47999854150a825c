"""`notify incident` and `notify affected --incident` against the real service."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterator
from hashlib import sha256

import pytest
from rich.cells import cell_len

from lab.service import ServiceProcess
from notify.exit_codes import ExitCode
from notify.incidents.answers import (
    DefinedAnswer,
    IncidentAffectedAnswer,
    IncidentAnswer,
    IncidentsAnswer,
    PreviewAnswer,
)
from tests.notify.asking import Notify, asking, serving
from tests.support.scenarios import LEAK

WINDOW = ("--from", "2026-09-01", "--to", "2026-09-03")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with serving(tmp_path_factory.mktemp("incidents")) as running:
        yield running


@pytest.fixture
def notify(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Notify:
    return asking(service, monkeypatch, capsys)


@pytest.fixture
def defined(notify: Notify) -> str:
    """An incident over the whole story; the module's tests share one."""
    notify("incident", "define", "story", *WINDOW)
    return "story"


def unfit(text: str) -> list[str]:
    """Lines that are wider than 80 cells, or hold a control or format character."""
    return [
        line
        for line in text.split("\n")
        if cell_len(line) > 80 or any(unicodedata.category(char) in ("Cc", "Cf", "Cs") for char in line)
    ]


def test_an_incident_is_defined_listed_and_shown(notify: Notify) -> None:
    done = notify("incident", "define", "first", *WINDOW, "--exclude-traffic", "internal", "-o", "json")
    assert (done.code, done.err) == (0, "")
    answer = DefinedAnswer.model_validate_json(done.out)
    assert (answer.incident.revision, answer.previous, answer.affected) == (1, None, 3)
    listed = IncidentsAnswer.model_validate_json(notify("incident", "list", "-o", "json").out)
    assert answer.incident in listed.incidents
    shown = IncidentAnswer.model_validate_json(notify("incident", "show", "first", "-o", "json").out)
    assert shown == answer.incident
    assert "first" in notify("incident", "list").out
    assert "Left out, traffic: internal." in notify("incident", "show", "first").out


def test_a_revision_is_made_only_when_it_is_asked_for_and_is_said(notify: Notify) -> None:
    notify("incident", "define", "revised", *WINDOW, "--exclude-tenant", "calm")
    again = notify("incident", "define", "revised", *WINDOW)
    assert (again.code, again.out) == (2, "")
    assert "--as-of now to make revision 2" in " ".join(again.err.split())
    done = notify("incident", "define", "revised", "--as-of", "now", "--exclude-tenant", "")
    assert done.code == 0
    assert "It follows revision 1, which was frozen at" in done.out
    shown = IncidentAnswer.model_validate_json(notify("incident", "show", "revised", "-o", "json").out)
    assert (shown.revision, shown.excluded_tenants) == (2, [])


def test_the_totals_fit_a_terminal_and_say_whose_view_it_is(notify: Notify, defined: str) -> None:
    done = notify("incident", "affected", defined)
    assert (done.code, done.err) == (ExitCode.FOUND, "")
    assert done.out.startswith("Operator's view, not for customers: incident story, revision 1")
    assert "acme" in done.out
    assert not unfit(done.out)
    for command in ("show", "preview"):
        assert not unfit(notify("incident", command, defined).out)
    assert not unfit(notify("incident", "list").out)


def test_json_csv_and_ndjson_hold_the_same_responses_and_digest(notify: Notify, defined: str) -> None:
    answer = IncidentAffectedAnswer.model_validate_json(notify("incident", "affected", defined, "-o", "json").out)
    found = {row.response_id for row in answer.responses}
    assert LEAK in found
    assert (answer.affected, answer.derived, len(found)) == (2, 1, 3)
    sheet = notify("incident", "affected", defined, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(sheet.out)))
    assert {row["response_id"] for row in rows} == found
    assert "acme" in {row["tenant"] for row in rows}
    assert answer.digest in sheet.err
    sorted_ids = "".join(f"{row['response_id']}\n" for row in sorted(rows, key=lambda row: row["response_id"]))
    assert sha256(sorted_ids.encode()).hexdigest() == answer.uids_digest
    lines = [json.loads(line) for line in notify("incident", "affected", defined, "-o", "ndjson").out.splitlines()]
    assert {line["response_id"] for line in lines if line["record"] == "response"} == found
    assert (lines[-1]["record"], lines[-1]["digest"]) == ("summary", answer.digest)


def test_a_rerun_prints_the_same(notify: Notify, defined: str) -> None:
    assert notify("incident", "affected", defined, "-o", "json") == notify(
        "incident", "affected", defined, "-o", "json"
    )


def test_a_preview_says_what_would_change(notify: Notify, defined: str) -> None:
    done = notify("incident", "preview", defined, "--exclude-tenant", "acme", "-o", "json")
    answer = PreviewAnswer.model_validate_json(done.out)
    assert (answer.before, answer.after, len(answer.removed)) == (3, 1, 2)
    assert LEAK in {one.response_id for one in answer.removed}
    table = notify("incident", "preview", defined, "--exclude-tenant", "acme").out
    assert "Changed: excluded_tenants. Nothing was written." in table
    assert "Removed: 2 of acme" in table
    assert IncidentAnswer.model_validate_json(notify("incident", "show", defined, "-o", "json").out).revision == 1


@pytest.mark.parametrize(
    ("parts", "code"),
    [([], ExitCode.FOUND), (["--scope", "same_tenant"], ExitCode.INCOMPLETE)],
    ids=["found", "unsure"],
)
def test_the_exit_code_says_what_the_incident_comes_to(notify: Notify, parts: list[str], code: ExitCode) -> None:
    name = f"code-{code.value}"
    assert notify("incident", "define", name, *WINDOW, *parts).code == ExitCode.OK
    assert notify("incident", "affected", name).code == code
    assert notify("incident", "preview", name).code == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["define", "x"], "needs a window"),
        (["define", "x", "--from", "2026-09-03", "--to", "2026-09-01"], "the window is empty"),
        (["define", "x", *WINDOW, "--rule", "no_such_rule"], "known are"),
        (["define", "x", *WINDOW, "--effect", "leak"], "known are contamination"),
        (["define", "x", *WINDOW, "--scope", "everyone"], "known are cross_tenant"),
        (["define", "x", *WINDOW, "--exclude-traffic", "tests"], "known are canary"),
        (["define", "x", *WINDOW, "--exclude-tenant", "acmee"], "unknown tenant 'acmee'"),
        (["define", "x", *WINDOW, "--node", "host77"], "known are host1/decode-31001"),
        (["define", "Not A Name", *WINDOW], "is no name for an incident"),
        (["define", "../x", *WINDOW], "is no name for an incident"),
        (["define", "x", *WINDOW, "--as-of", "yesterday"], "yesterday"),
        (["show", "nothing"], "unknown incident 'nothing'"),
        (["affected", "nothing"], "unknown incident 'nothing'"),
        (["preview", "nothing"], "unknown incident 'nothing'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_is_exit_2_with_a_sentence_and_writes_nothing(
    notify: Notify, arguments: list[str], said: str
) -> None:
    before = notify("incident", "list", "-o", "json").out
    done = notify("incident", *arguments, columns=300)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert notify("incident", "list", "-o", "json").out == before


@pytest.mark.parametrize("command", ["define", "list", "show", "preview", "affected"])
def test_help_has_examples(notify: Notify, command: str) -> None:
    assert f"notify incident {command}" in notify("incident", command, "--help", columns=200).out.split("Example", 1)[1]


def test_one_tenants_list_is_restricted_to_the_incident(notify: Notify, defined: str) -> None:
    done = notify("affected", "--tenant", "acme", "--incident", defined, "-o", "json")
    answer = json.loads(done.out)
    assert (done.code, answer["incident"]["name"], len(answer["responses"])) == (ExitCode.FOUND, defined, 2)
    table = notify("affected", "--tenant", "acme", "--incident", defined).out
    assert "Incident story, revision 1, as of" in table
    assert not unfit(table)
    donor = json.loads(
        notify("affected", "--tenant", "zenith", "--role", "donor", "--incident", defined, "-o", "json").out
    )
    assert len(donor["responses"]) == 1


@pytest.mark.parametrize("option", [["--from", "2h"], ["--to", "1h"], ["--scope", "all"]], ids=" ".join)
def test_an_incident_has_the_window_and_the_scopes(notify: Notify, defined: str, option: list[str]) -> None:
    done = notify("affected", "--tenant", "acme", "--incident", defined, *option)
    assert (done.code, done.out) == (2, "")
    assert "its own window and scopes" in done.err


def test_unknown_responses_are_listed_when_asked_for(notify: Notify) -> None:
    table = notify("affected", "--tenant", "unsure", "--include", "unknown")
    assert "May have received foreign KV" in table.out
    assert not unfit(table.out)
    assert table.code == ExitCode.INCOMPLETE
    (row,) = json.loads(notify("affected", "--tenant", "unsure", "--include", "unknown", "-o", "json").out)["unsure"]
    assert (row["verdict"], row["reasons"]) == ("unknown", ["prefill_facts_dropped"])
    sheet = list(
        csv.DictReader(io.StringIO(notify("affected", "--tenant", "acme", "--include", "unknown", "-o", "csv").out))
    )
    assert [line["verdict"] for line in sheet] == ["violation", "violation", "unknown"]
    records = [
        json.loads(line)["record"]
        for line in notify("affected", "--tenant", "acme", "--include", "unknown", "-o", "ndjson").out.splitlines()
    ]
    assert records == ["response", "response", "unsure", "summary"]


def test_a_donor_cannot_list_the_unknown_responses_of_others(notify: Notify) -> None:
    done = notify("affected", "--tenant", "zenith", "--role", "donor", "--include", "unknown")
    assert (done.code, done.out) == (2, "")
    assert "they are counted" in " ".join(done.err.split())


def test_the_answers_need_the_token(service: ServiceProcess, notify: Notify) -> None:
    done = notify("incident", "list", "--url", service.file.url, "--token", "x" * 43)
    assert (done.code, done.out) == (1, "")
