"""Tenant names for the operator's views: no pseudonym can be reversed, so they come from a list the operator keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine_hooks.conventions import UNATTRIBUTED
from engine_hooks.identity import Key, pseudonym
from notify.answers import TenantRef


class TenantNames:
    """Pseudonym -> name, for every name in a file (one a line, UTF-8, `#` begins a comment line) under every key."""

    def __init__(self, path: Path | None, keys: Sequence[Key]) -> None:
        self._path = path
        self._keys = tuple(keys)
        self._read_at: tuple[int, int] | None = None
        self._names: dict[tuple[str, str], str] = {}

    def reference(self, key_id: str, tenant: str) -> TenantRef:
        """How an operator's view names this tenant. A changed file is read again."""
        name = None if tenant == UNATTRIBUTED else self._current().get((key_id, tenant))
        return TenantRef(name=name, pseudonym=tenant, key=key_id)

    def identity(self, key_id: str, tenant: str) -> tuple[str, str]:
        """Equal for two pseudonyms exactly where they are known to be one tenant: rotated keys do not split it."""
        name = self._current().get((key_id, tenant))
        return ("name", name) if name is not None else (key_id, tenant)

    def _current(self) -> dict[tuple[str, str], str]:
        if self._path is None:
            return self._names
        status = self._path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._read_at:
            lines = (line.strip() for line in self._path.read_text(encoding="utf-8").split("\n"))
            names = [line for line in lines if line and not line.startswith("#")]
            self._names = {(key.id, pseudonym(key, name)): name for name in names for key in self._keys}
            self._read_at = stamp
        return self._names
