"""Errors of the API as problem documents (RFC 9457): a title, the status, and what happened in the reader's words."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from notify.errors import UnknownError, UsageError

MEDIA_TYPE = "application/problem+json"


def problem(status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A response that says what went wrong."""
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse(content, status, headers=headers, media_type=MEDIA_TYPE)


def answer_errors_as_problems(app: FastAPI) -> None:
    """Make every error of the app's own a problem document."""

    @app.exception_handler(UnknownError)
    async def unknown(_request: Request, error: UnknownError) -> JSONResponse:
        return problem(404, "unknown", str(error))

    @app.exception_handler(UsageError)
    async def usage(_request: Request, error: UsageError) -> JSONResponse:
        return problem(400, "bad question", str(error))

    @app.exception_handler(RequestValidationError)
    async def validation(_request: Request, error: RequestValidationError) -> JSONResponse:
        faults = "; ".join(f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors())
        return problem(400, "bad question", faults)

    @app.exception_handler(HTTPException)
    async def http(_request: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, "refused", str(error.detail), headers=dict(error.headers or {}))
