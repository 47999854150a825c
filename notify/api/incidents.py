"""The operator's questions about incidents, over HTTP. Every answer is across tenants and not for customers."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from notify.incidents.answers import (
    Change,
    DefinedAnswer,
    IncidentAffectedAnswer,
    IncidentAnswer,
    IncidentsAnswer,
    PreviewAnswer,
)
from notify.incidents.incident_desk import IncidentDesk

Revision = Annotated[int, Query(ge=0, le=2**32 - 1, description="0: the newest.")]


def add_incidents(app: FastAPI, desk: IncidentDesk) -> None:
    """Put the routes of incidents on the API."""

    @app.get("/v1/incidents", response_model=IncidentsAnswer)
    def incidents() -> IncidentsAnswer:
        return desk.all()

    @app.post("/v1/incidents/{name}", response_model=DefinedAnswer)
    def define(name: str, change: Change) -> DefinedAnswer:
        return desk.define(name, change)

    @app.get("/v1/incidents/{name}", response_model=IncidentAnswer)
    def show(name: str, revision: Revision = 0) -> IncidentAnswer:
        return desk.show(name, revision)

    @app.get("/v1/incidents/{name}/affected", response_model=IncidentAffectedAnswer)
    def affected_of_incident(name: str, revision: Revision = 0) -> IncidentAffectedAnswer:
        return desk.affected(name, revision)

    @app.post("/v1/incidents/{name}/preview", response_model=PreviewAnswer)
    def preview(name: str, change: Change, revision: Revision = 0) -> PreviewAnswer:
        return desk.preview(name, change, revision)
