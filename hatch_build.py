"""Metadata of the `pagewitness` distribution that depends on its own version."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class DependsOnItsHooks(MetadataHookInterface):
    """Adds the hooks distribution of exactly this version to the declared dependencies.

    The two share one contract (``engine_hooks/conventions.py``), so no other pair of versions fits.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies`` from the hook's own table in pyproject.toml, and the version of the hooks."""
        hooks = f"pagewitness-hooks=={metadata['version']}"
        metadata["dependencies"] = [*self.config["dependencies"], hooks]
