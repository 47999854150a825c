"""From the engine's words to the contract's: reasons, finishes, rooms. Only the enum is kept, never the words.

The engine puts client text into its messages (a grammar, a request id), so a message is only ever compared with the
constant openings of the engine's own sentences.
"""

from __future__ import annotations

from typing import Any

_OPENINGS: tuple[tuple[str, str], ...] = (
    ("Input length (", "input_too_long"),
    ("Multimodal prompt is too long", "input_too_long"),
    ("Request prompt exceeds the KV memory budget", "input_too_long"),
    ("Failed to compile ", "grammar"),
    ("Grammar preprocessing timed out", "grammar"),
    ("Grammar-based generation ", "grammar"),
    ("Invalid request: Disaggregated request received without bootstrap room", "no_room"),
    ("return_sampling_mask ", "unsupported"),
    ("Prompt input logprobs ", "unsupported"),
    ("Using priority is disabled", "unsupported"),
    ("Invalid request: ", "unsupported"),
)
_OVER_CAPACITY = " exceeds the maximum number of tokens: "
_CLIENT_ABORT = "Aborted by AbortReq."
_FINISHES = {
    "FINISH_LENGTH": "length",
    "FINISH_MATCHED_TOKEN": "stop",
    "FINISH_MATCHED_STR": "stop",
    "FINISHED_MATCHED_REGEX": "stop",
    "FINISH_ABORT": "abort",
}
_FAILURES: tuple[tuple[str, str], ...] = (
    ("Aborted by ", "aborted"),
    ("Timed out waiting for ", "timeout"),
    ("Lost connection with ", "peer_lost"),
    ("Decode instance could be dead", "peer_lost"),
    ("Prefill server with bootstrap_addr: ", "peer_lost"),
)
_TIMED_OUT = " timed out after "
_LONGEST_ROOM_BITS = 512  # Python refuses to write much longer integers in decimal


def reason_of(message: object, err_type: object = None) -> str:
    """Why the engine rejected a request (a word of `pagewitness.admission.reason`), from the message it gave."""
    if not isinstance(message, str):
        return "other"
    for opening, reason in _OPENINGS:
        if message.startswith(opening):
            return reason
    if message.startswith("Request ") and _OVER_CAPACITY in message:
        return "input_too_long"
    return "multimodal" if err_type == "InternalServerError" else "other"


def finish_of(finished_reason: Any) -> str:
    """A word of `pagewitness.finish` for an engine's finish reason."""
    return _FINISHES.get(type(finished_reason).__name__, "other")


def is_client_abort(message: object) -> bool:
    """Whether an abort goes back to a client (or operator) that withdrew the request."""
    return isinstance(message, str) and message.endswith(_CLIENT_ABORT)


def failure_of(reason: object) -> str:
    """A word of `pagewitness.failure` for the reason that the engine gives for a failed transfer."""
    if not isinstance(reason, str):
        return "other"
    for opening, failure in _FAILURES:
        if reason.startswith(opening):
            return failure
    return "timeout" if reason.startswith("Request ") and _TIMED_OUT in reason else "other"


def status_of(status_code: Any) -> int | None:
    """The HTTP status as a plain int, or None where the engine set none (its own type is an IntEnum)."""
    return None if status_code is None else int(status_code)


def room_of(room: Any) -> int | str | None:
    """A bootstrap room as both nodes write it. Clients choose it: it can be any number, text or nothing."""
    if room is None or isinstance(room, str):
        return room
    if isinstance(room, int):
        return room if room.bit_length() <= _LONGEST_ROOM_BITS else hex(room)
    return type(room).__name__


def rid_of(rid: Any) -> str:
    """The engine's request id as text. Clients choose it, but the engine only lets text through."""
    return rid if isinstance(rid, str) else type(rid).__name__
