"""The command `notify`: asks the running service, prints the answer, and says by its exit code what it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from notify.answers import (
    AffectedAnswer,
    CsvRow,
    DonorAnswer,
    DonorRow,
    OperatorResponseAnswer,
    RecipientAnswer,
    RecipientRow,
    ResponseAnswer,
    StatusAnswer,
)
from notify.errors import UsageError
from notify.exit_codes import MEANING
from notify.incidents.cli import incident_app
from notify.operator_cli import operator_app
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
from notify.output import quietly, run_app, say, write
from notify.parse import parsed
from notify.render.affected_table import show_donor, show_recipient
from notify.render.response_table import show_response
from notify.render.rows import as_csv, as_json, as_ndjson
from notify.render.screen import Screen
from notify.render.status_table import show_status
from notify.render.words import counts_line

_EPILOG = "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in MEANING.items()) + "."
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which responses received foreign KV, whose data was exposed, and how sure that is.",
    epilog=_EPILOG,
)
app.add_typer(operator_app, name="operator")
app.add_typer(incident_app, name="incident")


@app.command(epilog=_EPILOG)
def affected(
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant's name, as the gateway knows it.")],
    role: Annotated[
        Literal["recipient", "donor"],
        typer.Option("--role", help="recipient: whose responses read foreign KV. donor: whose KV others read."),
    ] = "recipient",
    start: From = None,
    end: To = None,
    scope: Scopes = None,
    incident: Annotated[
        str | None,
        typer.Option("--incident", help="Only what this incident is about, as it was frozen; it has the window."),
    ] = None,
    include: Annotated[
        Literal["unknown"] | None,
        typer.Option("--include", help="unknown: list unknown and pending responses as well, with why."),
    ] = None,
    output: RowsOutputForm = RowsOutput.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """List a tenant's affected responses; holds nothing of any other tenant."""
    if incident is not None and (start or end or scope):
        raise UsageError("--incident has its own window and scopes: leave out --from, --to and --scope")
    asked = {"tenant": tenant, "role": role, "scope": scope_param(scope), **window_params(start, end)}
    asked |= {"incident": incident, "include": include}
    with connect(url, token, data_dir) as client:
        answer: RecipientAnswer | DonorAnswer = parsed(AffectedAnswer, client.get("affected", **asked))
    quietly(lambda: _show_affected(answer, output))
    raise typer.Exit(answer.exit_code)


def _show_affected(answer: RecipientAnswer | DonorAnswer, output: RowsOutput) -> None:
    if output is RowsOutput.JSON:
        write(as_json(answer))
    elif output is RowsOutput.NDJSON:
        write(as_ndjson(answer, "responses"))
    elif output is RowsOutput.CSV:
        write(_rows_as_csv(answer))
        # a CSV file has no place for it, and a count of the unknown is never left out
        say(f"{counts_line(answer.counts)}")
        for because in answer.evidence.incomplete_because:
            say(f"incomplete: {because}")
    elif isinstance(answer, RecipientAnswer):
        show_recipient(answer, Screen())
    else:
        show_donor(answer, Screen())


def _rows_as_csv(answer: RecipientAnswer | DonorAnswer) -> str:
    if isinstance(answer, DonorAnswer):
        return as_csv(answer.responses, DonorRow)
    if answer.unsure is None:
        return as_csv(answer.responses, RecipientRow)
    affected_rows = [CsvRow(**row.model_dump(), verdict="violation", reasons=[]) for row in answer.responses]
    return as_csv([*affected_rows, *(CsvRow(**row.model_dump()) for row in answer.unsure)], CsvRow)


@app.command(epilog=_EPILOG)
def response(
    response_id: Annotated[
        str, typer.Argument(help="Its id, or 8 or more digits of it; its prefill leg's id; or the engine's request id.")
    ],
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Answer as for this tenant. Without it: the operator's view.")
    ] = None,
    output: OutputForm = Output.TABLE,
    url: Url = None,
    token: Token = None,
    data_dir: DataDir = None,
) -> None:
    """Show one response: verdict, findings, what it read."""
    with connect(url, token, data_dir) as client:
        said = client.get(f"responses/{quote(response_id, safe='')}", tenant=tenant)
    answer: ResponseAnswer = parsed(OperatorResponseAnswer if tenant is None else ResponseAnswer, said)
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_response(answer, Screen()))
    raise typer.Exit(answer.exit_code)


@app.command()
def status(output: OutputForm = Output.TABLE, url: Url = None, token: Token = None, data_dir: DataDir = None) -> None:
    """Show how far evidence and detection came."""
    with connect(url, token, data_dir) as client:
        answer: StatusAnswer = parsed(StatusAnswer, client.get("status"))
    quietly(lambda: write(as_json(answer)) if output is Output.JSON else show_status(answer, Screen()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run `notify` with these arguments, by default the process's. Returns the exit code."""
    return run_app(app, "notify", argv)
