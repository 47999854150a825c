"""Stand-in for the engine's compiled CUDA kernels: any name can be imported, none can be called.

Submodules are absent on purpose, so that the engine's own ``except ImportError`` branches apply.
"""

from __future__ import annotations

from typing import Any, NoReturn

__version__ = "0.0.0"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} needs a GPU; the lab's stand-in has no code for it")

    return absent
