"""docs/settings.md: every environment variable, from where it is declared.

The hooks declare theirs as data (`engine_hooks/settings.py`), the lab its own as constants, every other package in a
pydantic settings class, which is found wherever it stands.
"""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from docs.tables import table
from engine_hooks.settings import SETTINGS as HOOK_SETTINGS
from lab.engine.paths import DIR_SETTING

PACKAGES = ("collector", "detectors", "dashboards", "notify")

INTRODUCTION = """# Settings

Made by `make docs` from where each is declared. Every setting is an environment variable. A variable that is read in
two places has a line for each. Secrets are never printed, not even by `pagewitness-hooks doctor`."""

_SIDES = ("hooks", "agent", "gateway")


@dataclass(frozen=True, slots=True, order=True)
class Documented:
    """One line of the table."""

    name: str
    read_by: str
    takes: str
    default: str
    says: str


def settings_page() -> str:
    """The page, in Markdown."""
    rows = [[f"`{one.name}`", one.read_by, one.takes, one.default, one.says] for one in sorted(_all())]
    return "\n\n".join([INTRODUCTION, table(["setting", "read by", "takes", "default", "says"], rows)]) + "\n"


def documented() -> set[str]:
    """Names of every setting on the page."""
    return {one.name for one in _all()}


def _all() -> Iterator[Documented]:
    for setting in HOOK_SETTINGS:
        takes = setting.kind + (" (secret)" if setting.secret else "")
        read_by = ", ".join(side for side in _SIDES if setting.read_in(side))
        yield Documented(setting.name, read_by, takes, _code(setting.default), setting.help)
    for settings in _settings_classes():
        for name, field in settings.model_fields.items():
            yield _of_field(settings, name, field)
    yield Documented(
        DIR_SETTING,
        "lab",
        "a path",
        "`.lab` in the repository",
        "Where the lab keeps the real engine, its logs and its runs.",
    )


def _settings_classes() -> list[type[BaseSettings]]:
    """Every settings class of ours, by name of its module."""
    for package in PACKAGES:
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    ours = (one for one in _subclasses(BaseSettings) if one.__module__.split(".")[0] in PACKAGES)
    return sorted(ours, key=lambda one: one.__module__)


def _subclasses(base: type[BaseSettings]) -> Iterator[type[BaseSettings]]:
    for one in base.__subclasses__():
        yield one
        yield from _subclasses(one)


def _of_field(settings: type[BaseSettings], name: str, field: FieldInfo) -> Documented:
    variable = f"{settings.model_config.get('env_prefix', '')}{name}".upper()
    if not field.description:
        raise ValueError(f"{settings.__module__}.{settings.__name__}.{name} has no description: say what it is for")
    return Documented(variable, settings.__module__.split(".")[0], _takes(field), _default(field), field.description)


def _takes(field: FieldInfo) -> str:
    kinds = [kind for kind in _alternatives(field.annotation) if kind is not types.NoneType]
    words = {
        Path: "a path",
        str: "text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        SecretStr: "text (secret)",
    }
    said = " or ".join(words.get(kind) or str(kind) for kind in kinds)
    bounds = {
        word: getattr(constraint, attribute)
        for constraint in field.metadata
        for attribute, word in (("gt", "more than"), ("ge", "from"), ("lt", "less than"), ("le", "to"))
        if getattr(constraint, attribute, None) is not None
    }
    return " ".join([said, *(f"{word} {bound}" for word, bound in bounds.items())])


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)


def _default(field: FieldInfo) -> str:
    """The default as text; of a computed one, what its function says it is."""
    if field.default_factory is not None:
        said = (field.default_factory.__doc__ or "").strip()
        if not said:
            raise ValueError(f"the default of {field} is computed by a function without a docstring")
        return said.splitlines()[0].replace("``", "`").rstrip(".")
    default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    return _code("" if default is None else str(default))


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
