"""Settings of the collector: environment variables `PAGEWITNESS_<NAME>`."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024


def default_data_dir() -> Path:
    """`$XDG_DATA_HOME/pagewitness`, by default `~/.local/share/pagewitness`.

    Where a service keeps its data without PAGEWITNESS_DATA_DIR.
    """
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "pagewitness"


class ReceiverSettings(BaseSettings):
    """What the receiver takes."""

    model_config = SettingsConfigDict(env_prefix="PAGEWITNESS_", extra="ignore", env_ignore_empty=True)

    receive_max_bytes: int = Field(
        default=4 * MIB, ge=1024, description="Largest request body that is taken, in bytes, as it comes over the wire."
    )
    receive_max_inflated_bytes: int = Field(
        default=16 * MIB, ge=1024, description="Largest export request that is taken, in bytes, after decompression."
    )
    receive_max_spans: int = Field(default=50_000, ge=1, description="Most spans that one export request may have.")
    receive_max_requests: int = Field(
        default=24,
        ge=1,
        description="Requests that are read or wait for the store at a time; others are told to come again (429).",
    )
    receive_timeout_seconds: float = Field(
        default=30.0, gt=0, description="How long a request body may take to arrive, in seconds."
    )
