"""The manual for a gateway's owner names what the middleware really does."""

from __future__ import annotations

from docs.generate import FOLDER
from engine_hooks.gateway import DEFAULT_BODY_BYTES
from engine_hooks.gateway_exchange import RESPONSE_ID_HEADER
from engine_hooks.gateway_request import INFERENCE_PATHS, REMOVED_FIELDS, REMOVED_HEADER_PREFIXES, REMOVED_HEADERS

PAGE = (FOLDER / "tenant-identity.md").read_text(encoding="utf-8")


def test_it_names_every_field_and_header_that_is_taken_out() -> None:
    headers = [name.decode() for name in REMOVED_HEADERS] + [f"{name.decode()}*" for name in REMOVED_HEADER_PREFIXES]
    assert not [name for name in [*REMOVED_FIELDS, *headers] if f"`{name}`" not in PAGE]


def test_it_names_every_path_the_header_and_the_limit() -> None:
    assert not [name for name in [*INFERENCE_PATHS, RESPONSE_ID_HEADER.decode()] if f"`{name}`" not in PAGE]
    assert f"({DEFAULT_BODY_BYTES >> 20} MiB; 413)" in PAGE
