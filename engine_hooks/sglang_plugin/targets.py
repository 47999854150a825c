"""What a hook point is, and the check that a place in the running engine is what the table takes it for.

A target is looked up before it is hooked. One that is not there, that a class only inherits (its hook would fire twice,
or not at all) or that lacks a parameter the hook relies on is left alone and reported: what it would have told has no
supplier in that process.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Version = tuple[int, int, int]
OLDEST: Version = (0, 5, 11)
NEWEST: Version = (0, 5, 23)


class TargetError(LookupError):
    """A target is not what the table says. The message says what was found instead; it holds no client text."""


@dataclass(frozen=True, slots=True)
class Target:
    """One place to hook: `handler` (``<part>.<method>``) runs before or after the function at `path`.

    `facts` are the facts that it supplies, alone or with others (`page.release.mode` and `page.release.shared` stand
    for a part of one: how pages were given up, and pages that a prefix cache replaced); `uses` the parameters that the
    handler relies on; `backend` the transfer backend whose nodes have it ('' = all); `since` and `until` the engine
    versions that do. `tier` is the lowest that has it, `thread` the engine's thread that it runs on, `cost` how often:
    ``request``, ``chunk``, ``step``, ``group`` (of frees) or ``rare``. No class in the modules `heirs` may override
    the method without calling it: the hook would not see its calls.
    """

    path: str
    when: str
    handler: str
    facts: tuple[str, ...]
    uses: tuple[str, ...] = ()
    backend: str = ""
    since: Version = OLDEST
    until: Version | None = None
    tier: str = "control"
    thread: str = "scheduler"
    cost: str = "request"
    heirs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Short and unique, for the node's list of hooks: ``Class.method:when``, ``:exact`` behind it in that tier."""
        return ".".join(self.path.split(".")[-2:]) + ":" + self.when + (":exact" if self.tier == "exact" else "")


def check(target: Target) -> None:
    """Raise TargetError unless the target exists, its class defines it itself, and it has the parameters in use."""
    owner, function = _find(target.path)
    name = target.path.rpartition(".")[2]
    if inspect.isclass(owner) and name not in vars(owner):
        raise TargetError(f"{owner.__name__} only inherits {name}")
    if not callable(function):
        raise TargetError(f"{name} is not a function")
    for heir in _overriding(owner, name, target.heirs):
        raise TargetError(f"{heir} overrides {name}")
    parameters = inspect.signature(_undecorated(function, name)).parameters
    missing = [parameter for parameter in target.uses if parameter not in parameters]
    if missing:
        raise TargetError(f"{name} has no parameter {', '.join(missing)}")


def _undecorated(function: Any, name: str) -> Any:
    """The function under a decorator that does not say what it wraps (the engine has such decorators): they keep it
    in their closure. What a hook gets are the arguments of the call all the same."""
    for cell in getattr(function, "__closure__", None) or ():
        inner = cell.cell_contents
        if inspect.isfunction(inner) and inner.__name__ == name:
            return inner
    return function


def _overriding(owner: Any, name: str, modules: tuple[str, ...]) -> Iterator[str]:
    for module in modules:
        try:
            classes = [value for value in vars(importlib.import_module(module)).values() if inspect.isclass(value)]
        except ImportError:
            continue  # a backend that is not installed
        for one in classes:
            if (
                issubclass(one, owner)
                and one is not owner
                and name in vars(one)
                and not _calls_up(vars(one)[name], name)
            ):
                yield one.__name__


def _calls_up(function: Any, name: str) -> bool:
    """Whether a method names its base class's, as in ``super().send(...)``."""
    code = getattr(_undecorated(function, name), "__code__", None)
    return code is not None and {"super", name} <= set(code.co_names)


def problem(target: Target) -> str:
    """Why a target cannot be hooked in this process; '' if it can. Imports the part of the engine that holds it."""
    try:
        check(target)
    except TargetError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - importing a part of the engine can fail in any way
        return f"its module cannot be imported ({type(error).__name__})"
    return ""


def _find(path: str) -> tuple[Any, Any]:
    """The object at a dotted path and what holds it: a module, or a class in one."""
    holder, _, name = path.rpartition(".")
    try:
        owner: Any = importlib.import_module(holder)
    except ModuleNotFoundError:
        module, _, owner_name = holder.rpartition(".")
        try:
            owner = getattr(importlib.import_module(module), owner_name)
        except ImportError as error:
            raise TargetError(f"{module} cannot be imported: {error}") from None
        except AttributeError:
            raise TargetError(f"no {owner_name} in {module}") from None
    try:
        return owner, getattr(owner, name)
    except AttributeError:
        raise TargetError(f"no {name} in {holder}") from None
