"""The one submodule that an engine imports whatever the platform is (0.5.11 and 0.5.12 do): every name is here too."""

from __future__ import annotations

import sys

__getattr__ = sys.modules[__name__.rpartition(".")[0]].__getattr__
