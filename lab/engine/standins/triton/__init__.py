"""Stand-in for the Triton compiler: its kernels can be declared, never launched.

The engine decorates kernels while it is imported, also on machines where none will run. Here every attribute of
`triton` exists: a name in capitals is a class (to inherit from or annotate with), any other is a module that also
works as a decorator and returns the function as it is. Launching a kernel (`kernel[grid](...)`) is a TypeError.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

__version__ = "3.0.0"


class _Declared(types.ModuleType):
    """A name below `triton`: module, decorator and constant in one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        return _declare(self.__name__, name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], types.FunctionType):
            return args[0]
        return _unchanged


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _declare(parent: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    full = f"{parent}.{name}"
    if name[0].isupper():
        value: Any = type(name, (), {"__module__": parent, "__init__": lambda self, *args, **kwargs: None})
    else:
        value = sys.modules.get(full) or _module(full)
    setattr(sys.modules[parent], name, value)
    return value


def _module(full: str) -> _Declared:
    module = _Declared(full)
    module.__spec__ = importlib.machinery.ModuleSpec(full, None, is_package=True)
    sys.modules[full] = module
    return module


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes `import triton.anything.at.all` work."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("triton."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return sys.modules.get(spec.name) or _Declared(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.insert(0, _Submodules())


def cdiv(a: int, b: int) -> int:
    """Quotient of a and b, rounded up."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """Smallest power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def __getattr__(name: str) -> Any:
    return _declare(__name__, name)


def _as_decorator(name: str) -> Any:
    return _module(f"{__name__}.{name}")


jit = _as_decorator("jit")
autotune = _as_decorator("autotune")
heuristics = _as_decorator("heuristics")
