"""The service as one ASGI application: receiver, answers and health, over one store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse

from detectors.queries import Queries
from engine_hooks.identity import Key
from notify.answers import Detection, StatusAnswer
from notify.api.app import create_api
from notify.desk import TenantDesk
from notify.ids import WantedId
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.operator_view import OperatorView
from notify.status import service_status


def create_app(
    receiver: APIRouter,
    handle: Queries,
    *,
    token: str,
    pseudonym_keys: Sequence[Key],
    evidence_keys: Sequence[Key],
    names: TenantNames,
    detection: Callable[[], Detection],
    silence: timedelta,
) -> FastAPI:
    """`/v1/traces` of the receiver, `/api` for answers, `/healthz` and `/readyz`.

    `handle` is the answers' own handle on the store: its queries queue behind each other, not behind the writer's.
    An emitter that no agent spoke of for `silence` is a gap in the evidence.
    """
    app = FastAPI(title="pagewitness", openapi_url=None)
    desk = TenantDesk(handle, pseudonym_keys, evidence_keys, silence)
    operator = OperatorStore(handle)
    incidents = IncidentDesk(handle, lambda name: desk.scope_of(name)[0], names, silence)

    def status() -> StatusAnswer:
        return service_status(operator, detection(), desk.key_ids, silence)

    app.include_router(receiver)
    app.mount(
        "/api",
        create_api(
            desk, OperatorView(operator, names), incidents, status, lambda text: WantedId.of(text, evidence_keys), token
        ),
    )

    @app.get("/healthz")
    def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz")
    def readyz() -> JSONResponse:
        """Ready means that evidence can be stored. Detection in trouble is said, and does not turn evidence away."""
        try:
            handle.rows("SELECT 1 AS one")
        except Exception as error:  # noqa: BLE001  # whatever the store's driver raises: it is not ready
            return JSONResponse({"status": "store unavailable", "error": type(error).__name__}, 503)
        state = detection()
        return JSONResponse({"status": "ok", "detection": {"passes": state.passes, "failures": state.failures}})

    return app
