"""What a gateway makes of a client's request: its body without the fields that a client must not choose, and with ours.

The body is parsed and written anew. So whatever a client tried with repeated keys, escapes or encodings, every parser
behind the gateway reads the same fields, and no second `cache_salt`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

IDENTITY_FIELDS = ("cache_salt", "rid", "request_id")
"""Who asks, and under which id. The engine's abort takes an id for the beginning of others, counts no request whose id
begins with HEALTH_CHECK, and uses the `request_id` of the Responses API as its `rid`."""

NAMESPACE_FIELDS = ("extra_key", "lora_id")
"""Parts of the prefix cache's key. Up to 0.5.17 the engine joins `cache_salt` and `extra_key` into one string, so that
a client's `extra_key` could stand for another tenant's salt. `lora_id` is the engine's own: clients name a
`lora_path`."""

ROUTING_FIELDS = (
    "bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key", "decode_tp_size", "routed_dp_rank",
    "data_parallel_rank", "disagg_prefill_dp_rank", "routing_key", "kv_hints",
)  # fmt: skip
"""What the router behind the gateway sets: which nodes serve the request, and the room in which they meet. A client who
chooses a room can collide with another's transfer."""

INTERNAL_FIELDS = (
    "http_worker_ipc", "encoder_urls", "need_wait_for_mm_inputs", "num_items_assigned", "external_trace_header",
    "received_time",
)  # fmt: skip
"""What the engine's processes tell each other. `http_worker_ipc` names the process that an answer is sent to,
`encoder_urls` the addresses that the engine asks for embeddings."""

REMOVED_FIELDS = IDENTITY_FIELDS + NAMESPACE_FIELDS + ROUTING_FIELDS + INTERNAL_FIELDS

REMOVED_HEADERS = (b"x-smg-routing-key", b"x-data-parallel-rank")
REMOVED_HEADER_PREFIXES = (b"x-override-", b"x-pagewitness-")
"""Headers that the engine takes for fields of the body (`entrypoints/request_headers.py`, `serving_base.py`), and ours:
a gateway that hands a client's headers on must not hand these on."""

_COMPRESSION_HEADERS = (b"content-encoding", b"x-body-compressed")
_REWRITTEN_HEADERS = (b"content-length", b"transfer-encoding", b"content-encoding")
_MOST_IDS = 1024


class RefusedError(Exception):
    """The request cannot be read safely, and does not reach the engine. `status` is the HTTP status for the client."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class InferencePath:
    """How the engine reads a body that is posted to a path.

    `id_field` names the field that becomes the engine's `rid` ('': none that a string may always be put into), `prefix`
    is what the engine wants its value to begin with, `prompts` are the fields of which a list is a batch. `salt_field`
    takes the salt: `extra_key` for `/generate` of an engine up to 0.5.17, which knows no `cache_salt` there.
    """

    id_field: str = "rid"
    prefix: str = ""
    prompts: tuple[str, ...] = ()
    salt_field: str = "cache_salt"


INFERENCE_PATHS: dict[str, InferencePath] = {
    "/v1/chat/completions": InferencePath(),
    "/v1/completions": InferencePath(prompts=("prompt",)),
    "/v1/responses": InferencePath(id_field="request_id", prefix="resp_"),
    "/v1/embeddings": InferencePath(id_field=""),
    "/generate": InferencePath(prompts=("text", "input_ids", "input_embeds")),
}
"""The paths of SGLang's own server that take a tenant's prompts. Source: its `entrypoints/http_server.py`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as it goes on. `rids` are the ids of the engine's requests for it; empty where it draws its own."""

    body: bytes
    rids: tuple[str, ...]
    client_salt: bool


def removed_fields(keep: Collection[str] = ()) -> frozenset[str]:
    """The fields that are taken out, but for those to keep. Raises ValueError for one that cannot be kept."""
    for name in keep:
        if name in IDENTITY_FIELDS:
            raise ValueError(f"{name} cannot be kept: a client would choose who it is")
        if name not in REMOVED_FIELDS:
            raise ValueError(f"{name} is not taken out, so it need not be kept; {', '.join(REMOVED_FIELDS)} are")
    return frozenset(REMOVED_FIELDS) - frozenset(keep)


def check_headers(headers: Iterable[tuple[bytes, bytes]], most_bytes: int) -> None:
    """Raise RefusedError if the body is compressed, or longer than `most_bytes` by the client's own account."""
    for name, value in headers:
        lowered = name.lower()
        if lowered in _COMPRESSION_HEADERS and value.strip().lower() not in (b"", b"identity"):
            raise RefusedError(415, "the body is compressed; send it as it is")
        if lowered == b"content-length" and _is_more(value.strip(), most_bytes):
            raise too_long(most_bytes)


def _is_more(digits: bytes, most: int) -> bool:
    significant = digits.lstrip(b"0")
    # Python makes no int of thousands of digits.
    return significant.isdigit() and (len(significant) > len(str(most)) or int(significant) > most)


def too_long(most_bytes: int) -> RefusedError:
    """The refusal of a body that is longer than `most_bytes`."""
    return RefusedError(413, f"the body is longer than {most_bytes} bytes")


def clean_headers(headers: Iterable[tuple[bytes, bytes]], length: int) -> Iterator[tuple[bytes, bytes]]:
    """The client's headers without those that speak for it, and as they fit a whole body of `length` bytes."""
    for name, value in headers:
        lowered = name.lower()
        if lowered in REMOVED_HEADERS or lowered in _REWRITTEN_HEADERS or lowered in _COMPRESSION_HEADERS:
            continue
        if not lowered.startswith(REMOVED_HEADER_PREFIXES):
            yield name, value
    yield b"content-length", str(length).encode("ascii")


def prepare(body: bytes, path: InferencePath, *, salt: str | None, rid: str, removed: frozenset[str]) -> Prepared:
    """The body with our `cache_salt` (none: with none) and our id, and without the fields in `removed`.

    Raises RefusedError if it is not one JSON object in UTF-8.
    """
    try:
        fields = json.loads(body.decode("utf-8"))
        if not isinstance(fields, dict):
            raise RefusedError(400, "the body is not a JSON object")
        client_salt = fields.get("cache_salt") is not None
        kept = {name: value for name, value in fields.items() if name not in removed and name != path.salt_field}
        if salt is not None:
            kept[path.salt_field] = salt
        ids: tuple[str, ...] = ()
        if path.id_field:
            kept[path.id_field] = path.prefix + rid
            ids = _engine_ids(kept, path, path.prefix + rid)
        # ASCII, so that a lone surrogate passes as the escape that it came as. NaN and numbers beyond a double are no
        # JSON, and parsers behind us may differ on them.
        written = json.dumps(kept, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise RefusedError(400, "the body is not valid JSON in UTF-8") from error
    return Prepared(written, ids, client_salt)


def _engine_ids(fields: dict[str, Any], path: InferencePath, rid: str) -> tuple[str, ...]:
    """The ids under which the engine runs the request.

    A batch with one id gets `<id>_0`, `<id>_1`, ... (`GenerateReqInput._normalize_rid`, the same from 0.5.11 to
    0.5.23); of several choices each gets a random one (`TokenizerManager._handle_batch_request`).
    """
    sampling = fields.get("sampling_params")
    first = sampling[0] if isinstance(sampling, list) and sampling else sampling
    several = [fields.get("n"), first.get("n") if isinstance(first, dict) else None]
    if any(choices not in (None, 1, "1") for choices in several):
        return ()
    batch = next((_batch_size(name, fields[name]) for name in path.prompts if fields.get(name) is not None), None)
    if batch is None:
        return (rid,)
    # A fact for each is recorded while the event loop waits: not for more than an engine would take anyway.
    return tuple(f"{rid}_{place}" for place in range(batch)) if batch <= _MOST_IDS else ()


def _batch_size(name: str, prompt: Any) -> int | None:
    """How many prompts these are; None: one, not in a list. A prompt is a string, a list of token ids, or, of
    `input_embeds`, a list of vectors."""
    if name == "input_embeds" and isinstance(prompt, list) and prompt:
        return len(prompt) if isinstance(prompt[0], list) and prompt[0] and isinstance(prompt[0][0], list) else None
    return len(prompt) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else None
