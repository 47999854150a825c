"""`notify incident`: named questions, frozen. The operator's: what they come to is across tenants."""

from __future__ import annotations

import typer

from notify.exit_codes import MEANING, ExitCode
from notify.incidents.answers import (
    DefinedAnswer,
    IncidentAffectedAnswer,
    IncidentAnswer,
    IncidentRow,
    IncidentsAnswer,
    PreviewAnswer,
)
from notify.incidents.options import (
    AsOfNow,
    Effects,
    End,
    ExcludeNodes,
    ExcludeTenants,
    ExcludeTraffic,
    Models,
    Name,
    Nodes,
    Note,
    Revision,
    Rules,
    ScopesOf,
    Start,
    change,
)
from notify.options import DataDir, Output, OutputForm, RowsOutput, RowsOutputForm, Token, Url, connect
from notify.output import quietly, say, write
from notify.parse import parsed
from notify.render.incident_table import show_affected, show_defined, show_incident, show_incidents, show_preview
from notify.render.rows import as_csv, as_json, as_ndjson
from notify.render.screen import Screen
from notify.render.words import counts_line

_CODES = "Exit codes: " + "; ".join(f"{code.value} {MEANING[code]}" for code in ExitCode) + "."
_DEFINE = """Examples:

notify incident define sept-oversized --from 2026-08-27 --to 2026-09-10 --exclude-traffic internal

notify incident define sept-oversized --as-of now --note "with the spool of host3"

An empty value lets everything through again: --exclude-tenant ''. A name that exists is refused without --as-of now."""
_LIST = "Example: notify incident list -o json"
_SHOW = "Example: notify incident show sept-oversized --revision 1"
_PREVIEW = f"""Examples:

notify incident preview sept-oversized --to 2026-09-12

notify incident preview sept-oversized --as-of now

{_CODES}"""
_AFFECTED = f"""Examples:

notify incident affected sept-oversized

notify incident affected sept-oversized -o csv > affected.csv

{_CODES}"""

incident_app = typer.Typer(
    no_args_is_help=True,
    help="Named questions over a window, frozen by what was known. Operator's views, not for customers: for those, "
    "`notify affected --tenant NAME --incident NAME`.",
    epilog="Example: notify incident define sept-oversized --from 2026-08-27 --to 2026-09-10",
)


@incident_app.command(epilog=_DEFINE)
def define(
    name: Name,
    start: Start = None,
    end: End = None,
    model: Models = None,
    rule: Rules = None,
    effect: Effects = None,
    scope: ScopesOf = None,
    exclude_traffic: ExcludeTraffic = None,
    exclude_tenant: ExcludeTenants = None,
    node: Nodes = None,
    exclude_node: ExcludeNodes = None,
    note: Note = None,
    as_of: AsOfNow = None,
    output: OutputForm = Output.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Store a new incident, frozen by what is judged now; with --as-of now, a revision of one that exists."""
    said = change(
        start=start, end=end, models=model, rules=rule, effects=effect, scopes=scope, exclude_traffic=exclude_traffic,
        exclude_tenants=exclude_tenant, nodes=node, exclude_nodes=exclude_node, note=note, as_of=as_of,
    )  # fmt: skip
    with connect(url, token, data_dir) as client:
        answer: DefinedAnswer = parsed(DefinedAnswer, client.post(_path(name), said))
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_defined(answer, Screen()))


@incident_app.command(name="list", epilog=_LIST)
def list_them(
    output: OutputForm = Output.TABLE, url: Url = None, token: Token = None, data_dir: DataDir = None
) -> None:
    """List every incident, each by its newest revision."""
    with connect(url, token, data_dir) as client:
        answer: IncidentsAnswer = parsed(IncidentsAnswer, client.get("incidents"))
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_incidents(answer, Screen()))


@incident_app.command(epilog=_SHOW)
def show(
    name: Name,
    revision: Revision = None,
    output: OutputForm = Output.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Show a definition and what it is frozen by."""
    with connect(url, token, data_dir) as client:
        answer: IncidentAnswer = parsed(IncidentAnswer, client.get(_path(name), revision=_text(revision)))
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_incident(answer, Screen()))


@incident_app.command(epilog=_PREVIEW)
def preview(
    name: Name,
    start: Start = None,
    end: End = None,
    model: Models = None,
    rule: Rules = None,
    effect: Effects = None,
    scope: ScopesOf = None,
    exclude_traffic: ExcludeTraffic = None,
    exclude_tenant: ExcludeTenants = None,
    node: Nodes = None,
    exclude_node: ExcludeNodes = None,
    as_of: AsOfNow = None,
    revision: Revision = None,
    output: OutputForm = Output.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Show what a changed definition would add and remove. Writes nothing."""
    said = change(
        start=start, end=end, models=model, rules=rule, effects=effect, scopes=scope, exclude_traffic=exclude_traffic,
        exclude_tenants=exclude_tenant, nodes=node, exclude_nodes=exclude_node, note=None, as_of=as_of,
    )  # fmt: skip
    with connect(url, token, data_dir) as client:
        said = client.post(f"{_path(name)}/preview", said, revision=_text(revision))
    answer: PreviewAnswer = parsed(PreviewAnswer, said)
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_preview(answer, Screen()))
    raise typer.Exit(answer.exit_code)


@incident_app.command(epilog=_AFFECTED)
def affected(
    name: Name,
    revision: Revision = None,
    output: RowsOutputForm = RowsOutput.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Say what it comes to: totals, what was left out, coverage, digest. CSV and NDJSON have a row a response."""
    with connect(url, token, data_dir) as client:
        said = client.get(f"{_path(name)}/affected", revision=_text(revision))
    answer: IncidentAffectedAnswer = parsed(IncidentAffectedAnswer, said)
    quietly(lambda: _show_affected(answer, output))
    raise typer.Exit(answer.exit_code)


def _show_affected(answer: IncidentAffectedAnswer, output: RowsOutput) -> None:
    if output is RowsOutput.JSON:
        write(as_json(answer))
    elif output is RowsOutput.NDJSON:
        write(as_ndjson(answer, "responses"))
    elif output is RowsOutput.CSV:
        write(as_csv(answer.responses, IncidentRow))
        say(f"{counts_line(answer.counts)}; digest {answer.digest}")
        for because in answer.evidence.incomplete_because:
            say(f"incomplete: {because}")
    else:
        show_affected(answer, Screen())


def _path(name: str) -> str:
    from notify.incidents.words import checked_name  # with the rules, which other commands need not load

    return f"incidents/{checked_name(name)}"


def _text(revision: int | None) -> str | None:
    return None if revision is None else str(revision)
