"""Settings of the service and of the commands that ask it: environment variables ``PAGEWITNESS_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from collector.settings import default_data_dir
from notify.errors import UsageError


class Settings(BaseSettings):
    """Each field is the environment variable of its name in capitals, after ``PAGEWITNESS_``."""

    model_config = SettingsConfigDict(env_prefix="PAGEWITNESS_", extra="ignore", env_ignore_empty=True)

    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Folder of the embedded service: its store, its tokens and, while it runs, serve.json.",
    )
    host: str = Field(default="127.0.0.1", description="Address that `pagewitness serve` listens on.")
    port: int = Field(
        default=4318, ge=0, le=65535, description="Port that `pagewitness serve` listens on; 0 takes a free one."
    )
    detect_every: float = Field(
        default=2.0, gt=0, le=3600, description="Seconds between two detection passes of `pagewitness serve`."
    )
    pseudonym_keys: SecretStr = Field(
        default=SecretStr(""),
        description="Every key that made tenant pseudonyms, `id:hex,id:hex`: the service needs them to find a tenant "
        "by name. Never give them to an engine node.",
    )
    evidence_key: SecretStr = Field(
        default=SecretStr(""),
        description="The key, `id:hex`, that digests request ids: with it the service finds a response by the id that "
        "the engine used. Several may be given, comma-separated.",
    )
    tenants_file: Path | None = Field(
        default=None,
        description="File with one tenant name a line: the operator's views then show names instead of pseudonyms.",
    )
    url: str | None = Field(
        default=None, description="The service that `notify` asks; without it, the one that serve.json names."
    )
    token: SecretStr | None = Field(
        default=None,
        description="Responder token. For `notify`: what it shows to the service. For `pagewitness serve`: the token "
        "to accept, at least 32 characters; without it, a new one at each start, in serve.json.",
    )


def load_settings() -> Settings:
    """The settings of this process. Raises UsageError that names the variable; never shows a value."""
    try:
        return Settings()
    except ValidationError as error:
        faults = "; ".join(f"PAGEWITNESS_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise UsageError(f"settings are wrong: {faults}") from error
