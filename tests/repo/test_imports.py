"""Who may import what, beyond the layers that import-linter checks (pyproject.toml)."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.repo.tree import SHIPPED, STAGES, imports, pyproject, python_files

TYPES_ONLY = {"_typeshed"}  # there for type checkers alone
OURS = {*STAGES, "lab", "pagewitness", "tests", "docs", "benchmarks"}


def third_party(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in imports(path)}
    return tops - sys.stdlib_module_names - OURS - TYPES_ONLY


def normalized(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def declared() -> set[str]:
    """Distributions that either pyproject.toml asks for at run time."""
    hooks = pyproject("engine_hooks")["project"]["dependencies"]
    ours = pyproject()["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    return {normalized(requirement.split(">")[0]) for requirement in [*hooks, *ours]}


@pytest.mark.parametrize("path", python_files("engine_hooks"), ids=str)
def test_hooks_import_opentelemetry_and_nothing_else(path: Path) -> None:
    allowed = {
        "opentelemetry",
        "google",
    }  # opentelemetry-proto's messages are google.protobuf's, and so are their errors
    if path.parts[:2] == ("engine_hooks", "sglang_plugin"):
        allowed |= {"sglang", "torch", "numpy"}
    assert third_party(path) <= allowed


def test_no_stage_imports_the_lab() -> None:
    importers = {path.parts[0] for path in python_files() if any(name.split(".")[0] == "lab" for name in imports(path))}
    assert importers <= {"lab", "tests", "benchmarks", "docs", "pagewitness.py"}


def test_every_third_party_import_is_a_declared_dependency() -> None:
    distributions = packages_distributions()
    engine_only = {"sglang", "torch", "transformers", "safetensors", "tokenizers", "numpy"}
    undeclared = {
        f"{path}: {module}"
        for path in python_files("engine_hooks", *SHIPPED)
        for module in third_party(path)
        if not {normalized(name) for name in distributions.get(module, [])} & declared()
        and not (module in engine_only and path.parts[1] in {"sglang_plugin", "engine"})
    }
    assert not undeclared


def test_every_declared_dependency_is_imported() -> None:
    """But for chdb, which clickhouse-connect loads by itself."""
    distributions = packages_distributions()
    used = {
        normalized(name)
        for path in python_files("engine_hooks", *SHIPPED)
        for module in third_party(path)
        for name in distributions.get(module, [])
    }
    assert declared() - used <= {"chdb"}
