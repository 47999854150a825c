"""What the receiver answers when it does not take a request: OTLP/HTTP's statuses, and a message that says why.

The body of an error is a google.rpc.Status in protobuf. 429 and 503 mean "send it again", after Retry-After seconds;
after any other the sender must not (https://opentelemetry.io/docs/specs/otlp/#otlphttp-response).
"""

from __future__ import annotations

from http import HTTPStatus

PROTOBUF = "application/x-protobuf"

_RPC_CODES = {
    HTTPStatus.BAD_REQUEST: 3,  # INVALID_ARGUMENT
    HTTPStatus.UNAUTHORIZED: 16,  # UNAUTHENTICATED
    HTTPStatus.FORBIDDEN: 7,  # PERMISSION_DENIED
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 3,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: 3,
    HTTPStatus.TOO_MANY_REQUESTS: 8,  # RESOURCE_EXHAUSTED
    HTTPStatus.SERVICE_UNAVAILABLE: 14,  # UNAVAILABLE
}


class Refusal(Exception):
    """Why a request is not taken. `retry_after` is in seconds, for a status that asks to come again."""

    def __init__(self, status: HTTPStatus, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer, its content type aside."""
        if self.retry_after is not None:
            return {"Retry-After": str(self.retry_after)}
        return {"WWW-Authenticate": "Bearer"} if self.status is HTTPStatus.UNAUTHORIZED else {}

    @property
    def body(self) -> bytes:
        """google.rpc.Status: `int32 code = 1; string message = 2`."""
        text = self.message.encode()
        return bytes([0x08, _RPC_CODES[self.status], 0x12]) + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)
