"""Who may ask: whoever shows the responder token. It opens every tenant's answers, so it belongs to responders only."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from fastapi import HTTPException, Request

MIN_TOKEN_CHARACTERS = 32


def require_token(token: str) -> Callable[[Request], None]:
    """A dependency that lets a request pass only with `Authorization: Bearer <token>`, compared in constant time.

    Raises ValueError for a token that is too short to be a secret.
    """
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ValueError(f"a responder token needs at least {MIN_TOKEN_CHARACTERS} characters, not {len(token)}")
    expected = token.encode()

    def check(request: Request) -> None:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), expected):
            raise HTTPException(401, "the responder token is missing or wrong", headers={"WWW-Authenticate": "Bearer"})

    return check
