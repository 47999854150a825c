"""Every setting of the hooks and the agent, declared as data, and what the environment says about them.

`SETTINGS` is the one list: documentation and `pagewitness-hooks doctor` are made from it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine_hooks.conventions import TIER
from engine_hooks.identity import Key, KeyFormatError, parse_keys

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,98}\Z")
_SIZE = re.compile(r"([0-9]{1,15})\s*(|[KMGT])(?:i?B)?\Z", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class SettingsError(ValueError):
    """One or more settings cannot be used. `faults` has one sentence for each; the text is all of them."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable. `kind` says in words what it takes; `default` is its text where it is not set;
    `scope` says who reads it: `hooks` (in the engine), `agent`, `both`, or `gateway` alone; `gateway` whether a gateway
    reads it too."""

    name: str
    field: str
    kind: str
    default: str
    help: str
    scope: str
    parse: Callable[[str], Any]
    secret: bool = False
    gateway: bool = False

    def read_in(self, scope: str) -> bool:
        """Whether this side reads it: `hooks`, `agent` or `gateway`; `both` stands for every side."""
        if scope == "gateway":
            return self.gateway or self.scope == "gateway"
        return scope == "both" or self.scope in (scope, "both")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one process, parsed."""

    hooks: bool
    tier: str
    kill_file: Path | None
    region: str
    ring_dir: Path
    ring_bytes: int
    emitter: str
    mac_keys: tuple[Key, ...]
    pseudonym_keys: tuple[Key, ...]
    evidence_key: Key | None
    node_boot: bytes | None
    export_url: str
    export_token_file: Path | None
    spool_dir: Path
    spool_bytes: int
    heartbeat_seconds: float
    engine_metrics_urls: tuple[str, ...]


def load(environ: Mapping[str, str] | None = None, scope: str = "both", **overrides: str | None) -> Settings:
    """The settings in `environ` (default: the process's own).

    `scope` is `hooks`, `agent`, `gateway`, or `both` for all of them: a setting that only another side reads keeps its
    default, so that a mistake in it stops nobody else. `overrides` (by field name; None = not given) come from a
    command line and win over the environment. Raises SettingsError with every fault found.
    """
    source = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    faults: list[str] = []
    for setting in SETTINGS:
        override = overrides.get(setting.field)
        text = source.get(setting.name, "").strip() if override is None else override.strip()
        if override is None and not setting.read_in(scope):
            text = ""
        try:
            values[setting.field] = setting.parse(text or setting.default)
        except ValueError as error:
            shown = "" if setting.secret else f" {text[:80]!r}"
            faults.append(f"{setting.name}{shown}: {error} (expected {setting.kind})")
    if faults:
        raise SettingsError(faults)
    return Settings(**values)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("is neither on nor off")
    return text == "on"


def _tier(text: str) -> str:
    if text not in TIER.choices:
        raise ValueError("is neither control nor exact")
    return text


def _region(text: str) -> str:
    if len(text) > 64:
        raise ValueError("is longer than 64 characters")
    return text


def _size(text: str) -> int:
    match = _SIZE.match(text)
    if match is None:
        raise ValueError("is not a size")
    size = int(match[1]) * _UNITS[match[2].upper()]
    if size < 64 << 10:
        raise ValueError("is less than 64 KiB")
    return size


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError("is not a number") from None
    if not 0.1 <= seconds <= 3600:
        raise ValueError("is not between 0.1 and 3600")
    return seconds


def _prefix(text: str) -> str:
    prefix = text or socket.gethostname()
    if not _PREFIX.match(prefix):
        raise ValueError(f"{prefix[:40]!r} cannot be an emitter's prefix")
    return prefix


def _path(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ValueError("is not an absolute path")
    return path


def _optional_path(text: str) -> Path | None:
    return _path(text) if text else None


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is not an http address")
    return text


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(_url(part.strip()) for part in text.split(",") if part.strip())
    if len({urlsplit(url).netloc.rpartition(":")[2] for url in urls}) < len(urls):
        raise ValueError("names two addresses with one port")
    return urls


def _key(text: str) -> Key | None:
    keys = parse_keys(text)
    if len(keys) > 1:
        raise KeyFormatError("holds more than one key")
    return keys[0] if keys else None


def _boot(text: str) -> bytes | None:
    if not text:
        return None
    if not re.fullmatch(r"[0-9a-f]{32}", text):
        raise ValueError("is not 32 hex digits")
    return bytes.fromhex(text)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "PAGEWITNESS_HOOKS", "hooks", "on or off", "on",
        "The kill switch: `off` keeps every hook out of the engine.", "hooks", _switch,
    ),
    Setting(
        "PAGEWITNESS_TIER", "tier", "control or exact", "control",
        "How much is recorded. `exact` adds the page ids of each allocation, free and step.", "hooks", _tier,
    ),
    Setting(
        "PAGEWITNESS_KILL_FILE", "kill_file", "an absolute path", "",
        "The kill switch at run time. While a file is there, every hook stands still; it ends the boot, and another "
        "begins once it is gone. Looked for about once a second.",
        "hooks", _optional_path,
    ),
    Setting(
        "PAGEWITNESS_REGION", "region", "text of at most 64 characters", "",
        "Where the node runs; recorded with its configuration.", "hooks", _region,
    ),
    Setting(
        "PAGEWITNESS_RING_DIR", "ring_dir", "an absolute path", "/dev/shm/pagewitness",
        "Where recording processes make their rings and the agent finds them; keep it on a memory file system.",
        "both", _path, gateway=True,
    ),
    Setting(
        "PAGEWITNESS_RING_BYTES", "ring_bytes", "a size of 64 KiB or more, e.g. 32M", "32M",
        "Room for facts in the ring of each recording process, reserved when it starts.", "hooks", _size, gateway=True,
    ),
    Setting(
        "PAGEWITNESS_EMITTER", "emitter", "letters, digits, '.', '_' and '-'", "",
        "Prefix of the emitters of this host, which the token is bound to; the host's name if not set.",
        "both", _prefix, gateway=True,
    ),
    Setting(
        "PAGEWITNESS_MAC_KEYS", "mac_keys", "id:hex[,id:hex]", "",
        "Keys that vouch for a tenant's salt, newest first: a gateway signs with the first, an engine takes any. "
        "Without one, every request is unattributed.",
        "hooks", parse_keys, secret=True, gateway=True,
    ),
    Setting(
        "PAGEWITNESS_PSEUDONYM_KEYS", "pseudonym_keys", "id:hex[,id:hex]", "",
        "Keys that make tenants' pseudonyms, newest first: a gateway uses the first. Never for an engine node.",
        "gateway", parse_keys, secret=True,
    ),
    Setting(
        "PAGEWITNESS_EVIDENCE_KEY", "evidence_key", "id:hex", "",
        "Key for the digests of request ids, rooms and page lists, the same everywhere. Without, nothing is recorded.",
        "hooks", _key, secret=True, gateway=True,
    ),
    Setting(
        "PAGEWITNESS_NODE_BOOT", "node_boot", "32 hex digits", "",
        "One life of a node: drawn by the engine's parent process and inherited by its ranks; not for people to set.",
        "hooks", _boot,
    ),
    Setting(
        "PAGEWITNESS_EXPORT_URL", "export_url", "an address like http://host:4318", "http://127.0.0.1:4318",
        "The receiver that the agent posts to (OTLP over HTTP).", "agent", _url,
    ),
    Setting(
        "PAGEWITNESS_EXPORT_TOKEN_FILE", "export_token_file", "an absolute path", "",
        "File whose first line is the token for this host's emitters; without one, the agent posts without a token.",
        "agent", _optional_path,
    ),
    Setting(
        "PAGEWITNESS_SPOOL_DIR", "spool_dir", "an absolute path", "/var/lib/pagewitness/spool",
        "Where the agent keeps what the receiver does not take at the moment; put it on a disk.", "agent", _path,
    ),
    Setting(
        "PAGEWITNESS_SPOOL_BYTES", "spool_bytes", "a size of 64 KiB or more, e.g. 1G", "1G",
        "The most that the spool takes of that disk.", "agent", _size,
    ),
    Setting(
        "PAGEWITNESS_HEARTBEAT_SECONDS", "heartbeat_seconds", "a number from 0.1 to 3600", "2",
        "How often the agent says how far each emitter's evidence has come; verdicts wait for it.", "agent", _seconds,
    ),
    Setting(
        "PAGEWITNESS_ENGINE_METRICS_URLS", "engine_metrics_urls", "addresses like http://host:30000, with commas", "",
        "Metrics of this host's engines (--enable-metrics): their own count of requests is held against the legs that "
        "the hooks recorded. The port of each tells which emitter it belongs to.", "agent", _urls,
    ),
)  # fmt: skip
