"""`notify operator`: the operator's own views, across tenants. Not for customers."""

from __future__ import annotations

from typing import Annotated

import typer

from notify.answers import Counts, OperatorRow, PairsAnswer, ResponsesAnswer, TenantsAnswer
from notify.exit_codes import ExitCode
from notify.options import (
    DataDir,
    From,
    Output,
    OutputForm,
    RowsOutput,
    RowsOutputForm,
    Scopes,
    To,
    Token,
    Url,
    connect,
    scope_param,
    window_params,
)
from notify.output import quietly, write
from notify.parse import parsed
from notify.render.operator_table import show_pairs, show_responses, show_tenants
from notify.render.rows import as_csv, as_json, as_ndjson
from notify.render.screen import Screen

operator_app = typer.Typer(no_args_is_help=True, help="The operator's own views, across tenants. Not for customers.")


@operator_app.command()
def pairs(
    start: From = None,
    end: To = None,
    scope: Scopes = None,
    output: OutputForm = Output.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Show whose KV went to whom. Exit code 3 if any did."""
    asked = {"scope": scope_param(scope), **window_params(start, end)}
    with connect(url, token, data_dir) as client:
        answer: PairsAnswer = parsed(PairsAnswer, client.get("operator/pairs", **asked))
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_pairs(answer, Screen()))
    raise typer.Exit(_code(found=bool(answer.pairs), unsure=_unsure(answer.counts), judged=_judged(answer.counts)))


@operator_app.command()
def tenants(
    start: From = None,
    end: To = None,
    output: OutputForm = Output.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """List every tenant with its counts. Exit code 3 if one is affected."""
    with connect(url, token, data_dir) as client:
        answer: TenantsAnswer = parsed(TenantsAnswer, client.get("tenants", **window_params(start, end)))
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_tenants(answer, Screen()))
    unsure = any(_unsure(row.counts) for row in answer.tenants)
    judged = any(_judged(row.counts) for row in answer.tenants)
    raise typer.Exit(_code(found=any(row.affected for row in answer.tenants), unsure=unsure, judged=judged))


@operator_app.command()
def responses(
    verdict: Annotated[
        str | None,
        typer.Option(
            "--verdict", help="Comma-separated: violation, clean, unknown, pending; or all. Default: all but clean."
        ),
    ] = None,
    unattributed: Annotated[
        bool, typer.Option("--unattributed", help="Only of requests that no gateway vouched for: they may be anyone's.")
    ] = False,
    start: From = None,
    end: To = None,
    output: RowsOutputForm = RowsOutput.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """List responses of all tenants by verdict. Exit code 3 if one is a violation."""
    asked = {"verdict": verdict, "unattributed": "true" if unattributed else None, **window_params(start, end)}
    with connect(url, token, data_dir) as client:
        answer: ResponsesAnswer = parsed(ResponsesAnswer, client.get("operator/responses", **asked))
    quietly(lambda: _show_responses(answer, output))
    found = answer.counts.violation > 0
    raise typer.Exit(_code(found=found, unsure=_unsure(answer.counts), judged=_judged(answer.counts)))


def _show_responses(answer: ResponsesAnswer, output: RowsOutput) -> None:
    if output is RowsOutput.JSON:
        write(as_json(answer))
    elif output is RowsOutput.NDJSON:
        write(as_ndjson(answer, "responses"))
    elif output is RowsOutput.CSV:
        write(as_csv(answer.responses, OperatorRow))
    else:
        show_responses(answer, Screen())


def _unsure(counts: Counts) -> bool:
    return counts.unknown + counts.pending > 0


def _judged(counts: Counts) -> bool:
    return counts.violation + counts.clean + counts.unknown + counts.pending > 0


def _code(*, found: bool, unsure: bool, judged: bool) -> ExitCode:
    """`judged`: whether any response was; nothing found among none is no all-clear."""
    if found:
        return ExitCode.FOUND
    return ExitCode.INCOMPLETE if unsure or not judged else ExitCode.OK
