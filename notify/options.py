"""Options that every `notify` command takes, and what they lead to."""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from notify.client import Client, find_service
from notify.question import Span, parse_scopes
from notify.settings import load_settings
from notify.times import iso, parse_moment


class Output(enum.StrEnum):
    """Forms of an answer without rows for a spreadsheet."""

    TABLE = "table"
    JSON = "json"


class RowsOutput(enum.StrEnum):
    """Forms of an answer with rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    NDJSON = "ndjson"


Url = Annotated[
    str | None, typer.Option("--url", help="The service to ask [PAGEWITNESS_URL; else the data directory's].")
]
Token = Annotated[
    str | None,
    typer.Option("--token", help="Responder token [PAGEWITNESS_TOKEN; other users of this machine can see arguments]."),
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Data directory of a service on this machine [PAGEWITNESS_DATA_DIR].")
]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="Form of the answer.")]
RowsOutputForm = Annotated[RowsOutput, typer.Option("--output", "-o", help="Form of the answer.")]
From = Annotated[
    str | None,
    typer.Option("--from", help="Start of the window, UTC: ISO 8601, or an age (2h). Default: the start of evidence."),
]
To = Annotated[str | None, typer.Option("--to", help="End of the window, not included. Default: no end.")]
Scopes = Annotated[
    str | None,
    typer.Option(
        "--scope",
        help="Scopes to list, comma-separated: cross_tenant, unattributed, internal_donor, same_tenant, no_writer; "
        "or all. Default: cross_tenant,unattributed.",
    ),
]


def connect(url: str | None, token: str | None, data_dir: Path | None) -> Client:
    """A client of the service that the options name, each over its setting. Raises CommandError."""
    settings = load_settings()
    given = {"url": url, "token": SecretStr(token) if token else None, "data_dir": data_dir}
    return Client(find_service(settings.model_copy(update={name: value for name, value in given.items() if value})))


def window_params(start: str | None, end: str | None) -> dict[str, str | None]:
    """`from_` and `to` for the service, as moments. Raises UsageError."""
    now = datetime.now(UTC)
    window = Span(parse_moment(start, now) if start else None, parse_moment(end, now) if end else None)
    return {"from_": iso(window.start) if window.start else None, "to": iso(window.end) if window.end else None}


def scope_param(scopes: str | None) -> str | None:
    """Scopes for the service, checked here. Raises UsageError."""
    return None if scopes is None else ",".join(parse_scopes(scopes))
