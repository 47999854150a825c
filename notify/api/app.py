"""The API as an application of its own, mounted under `/api`: questions in, documented answers out.

Handlers are plain functions: the framework runs them on threads, where a query may block.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Query

from notify.answers import (
    AffectedAnswer,
    OperatorResponseAnswer,
    PairsAnswer,
    ResponseAnswer,
    ResponsesAnswer,
    StatusAnswer,
    TenantsAnswer,
)
from notify.api.auth import require_token
from notify.api.incidents import add_incidents
from notify.api.problems import answer_errors_as_problems
from notify.desk import TenantDesk
from notify.errors import UsageError
from notify.ids import WantedId
from notify.incidents.incident_desk import IncidentDesk
from notify.operator_view import OperatorView
from notify.question import Span, parse_include, parse_scopes, parse_verdicts
from notify.times import parse_moment

From = Annotated[str | None, Query(alias="from", description="Start of the window, ISO 8601.")]
To = Annotated[str | None, Query(description="End of the window, not included, ISO 8601.")]
Scopes = Annotated[str | None, Query(description="Comma-separated scopes, or all.")]
Verdicts = Annotated[str | None, Query(description="Comma-separated verdicts, or all.")]
Incident = Annotated[str | None, Query(description="Only what this incident is about, as it was frozen.")]
Included = Annotated[str | None, Query(description="unknown: list unknown and pending responses as well.")]
Tenant = Annotated[str, Query(description="The tenant's name.")]


def create_api(
    desk: TenantDesk,
    operator: OperatorView,
    incidents: IncidentDesk,
    status: Callable[[], StatusAnswer],
    wanted: Callable[[str], WantedId],
    token: str,
) -> FastAPI:
    """The API over these answerers. `wanted` reads what a person means by a response id; `token` opens all of it.

    Raises ValueError for a token that is too short.
    """
    app = FastAPI(title="pagewitness", openapi_url=None, dependencies=[Depends(require_token(token))])
    answer_errors_as_problems(app)
    add_incidents(app, incidents)

    @app.get("/v1/affected", response_model=AffectedAnswer)
    def affected(
        tenant: Tenant,
        role: Literal["recipient", "donor"] = "recipient",
        from_: From = None,
        to: To = None,
        scope: Scopes = None,
        incident: Incident = None,
        include: Included = None,
    ) -> AffectedAnswer:
        unsure = parse_include(include, role)
        found = None
        window, scopes = _window(from_, to), parse_scopes(scope)
        if incident is not None:
            if from_ or to or scope:
                raise UsageError("an incident has its own window and scopes: ask without from, to and scope")
            found = incidents.book.get(incident)
            window, scopes = found.definition.window, found.definition.scopes
        if role == "donor":
            return desk.donor(tenant, window, scopes, found)
        return desk.recipient(tenant, window, scopes, found, include_unsure=unsure)

    @app.get("/v1/responses/{response_id:path}", response_model=OperatorResponseAnswer | ResponseAnswer)
    def response(response_id: str, tenant: str | None = None) -> ResponseAnswer:
        return operator.response(wanted(response_id)) if tenant is None else desk.response(tenant, response_id)

    @app.get("/v1/status", response_model=StatusAnswer)
    def service() -> StatusAnswer:
        return status()

    @app.get("/v1/tenants", response_model=TenantsAnswer)
    def tenants(from_: From = None, to: To = None) -> TenantsAnswer:
        return operator.tenants(_window(from_, to))

    @app.get("/v1/operator/pairs", response_model=PairsAnswer)
    def pairs(from_: From = None, to: To = None, scope: Scopes = None) -> PairsAnswer:
        return operator.pairs(_window(from_, to), parse_scopes(scope))

    @app.get("/v1/operator/responses", response_model=ResponsesAnswer)
    def responses(
        from_: From = None, to: To = None, verdict: Verdicts = None, *, unattributed: bool = False
    ) -> ResponsesAnswer:
        return operator.responses(_window(from_, to), parse_verdicts(verdict), unattributed=unattributed)

    return app


def _window(start: str | None, end: str | None) -> Span:
    now = datetime.now(UTC)
    return Span(parse_moment(start, now) if start else None, parse_moment(end, now) if end else None)
