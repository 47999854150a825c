"""Settings of detection."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class DetectionSettings(BaseSettings):
    """How patient detection is. Environment variables `PAGEWITNESS_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="PAGEWITNESS_")

    stall_seconds: int = Field(
        default=60,
        ge=1,
        description="How long decode may hold reserved pages after the prefill leg it waits for has ended without "
        "sending them, before `transfer_short.stalled` fires. Keep it below the engine's waiting timeout.",
    )
    silent_seconds: int = Field(
        default=60,
        ge=1,
        description="An emitter that no agent has spoken for in this time leaves the watermark and counts as a gap.",
    )
    clock_error_seconds: float = Field(
        default=0.5,
        ge=0,
        description="How far the clocks of two nodes may be apart; the watermark is that much behind.",
    )

    @property
    def silence(self) -> timedelta:
        """`silent_seconds` as a duration."""
        return timedelta(seconds=self.silent_seconds)

    @property
    def clock_error(self) -> timedelta:
        """`clock_error_seconds` as a duration."""
        return timedelta(seconds=self.clock_error_seconds)
