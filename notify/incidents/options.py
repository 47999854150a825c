"""Options of `notify incident`, and what they lead to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from notify.times import iso, parse_moment

Name = Annotated[str, typer.Argument(help="The incident. Customers are shown it: keep customers' names out of it.")]
Start = Annotated[
    str | None,
    typer.Option("--from", help="Start of the window, UTC: ISO 8601, or an age (2h). Needed for a new incident."),
]
End = Annotated[str | None, typer.Option("--to", help="End of the window, not included. Needed for a new incident.")]
Models = Annotated[list[str] | None, typer.Option("--model", help="Only this served model. Repeat for more.")]
Rules = Annotated[
    list[str] | None, typer.Option("--rule", help="Only violations of this rule, or rule.variant. Repeat for more.")
]
Effects = Annotated[
    list[str] | None,
    typer.Option("--effect", help="contamination (the default), exposure_risk, posture. Repeat for more."),
]
ScopesOf = Annotated[
    list[str] | None,
    typer.Option("--scope", help="Whose KV was read. Repeat for more. Default: cross_tenant and unattributed."),
]
ExcludeTraffic = Annotated[
    list[str] | None,
    typer.Option("--exclude-traffic", help="Leave out customer, internal, researcher or canary traffic. Repeat."),
]
ExcludeTenants = Annotated[
    list[str] | None, typer.Option("--exclude-tenant", help="Leave out this tenant, by name. Repeat for more.")
]
Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", help="Only responses that this node decoded: an emitter, or its name without the rank."),
]
ExcludeNodes = Annotated[
    list[str] | None, typer.Option("--exclude-node", help="Leave out what this node decoded. Repeat for more.")
]
Note = Annotated[str | None, typer.Option("--note", help="Text for whoever reads the definition.")]
AsOfNow = Annotated[
    Literal["now"] | None,
    typer.Option(
        "--as-of", help="now: freeze anew, by all that is judged now. Of an incident that exists: a revision."
    ),
]
Revision = Annotated[int | None, typer.Option("--revision", min=1, help="This revision of it. Default: the newest.")]


def change(
    *,
    start: str | None,
    end: str | None,
    models: list[str] | None,
    rules: list[str] | None,
    effects: list[str] | None,
    scopes: list[str] | None,
    exclude_traffic: list[str] | None,
    exclude_tenants: list[str] | None,
    nodes: list[str] | None,
    exclude_nodes: list[str] | None,
    note: str | None,
    as_of: str | None,
) -> dict[str, Any]:
    """What was given, for the service. An option that was given as an empty text is an empty list: no filter.

    Raises UsageError.
    """
    now = datetime.now(UTC)
    lists = {
        "models": models,
        "rules": rules,
        "effects": effects,
        "scopes": scopes,
        "exclude_traffic": exclude_traffic,
        "exclude_tenants": exclude_tenants,
        "nodes": nodes,
        "exclude_nodes": exclude_nodes,
    }
    return {
        **{name: iso(parse_moment(text, now)) for name, text in (("from", start), ("to", end)) if text},
        **{name: [one for one in words if one] for name, words in lists.items() if words},
        **{name: text for name, text in (("note", note), ("as_of", as_of)) if text is not None},
    }
