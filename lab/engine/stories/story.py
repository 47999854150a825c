"""What a story is: traffic with a purpose, the pair that it needs, and what has to come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.engine.checks import Check
from lab.engine.install import MAIN
from lab.engine.servers import PairSettings
from lab.engine.stage import Stage

VULNERABLE = "0.5.19"
"""The engine version that goes on with a rejected prompt."""

FIXED = MAIN
"""The one that does not."""


@dataclass(frozen=True, slots=True)
class Story:
    """One story.

    `tell` acts it out; `settings` and `checks` say for an engine version what pair it needs and what must hold of its
    truth. `versions`: those of which a capture is kept. `dies`: roles whose server has to be dead at the end.
    """

    name: str
    about: str
    tell: Callable[[Stage], None]
    settings: Callable[[str], PairSettings]
    checks: Callable[[str], tuple[Check, ...]]
    versions: tuple[str, ...] = (VULNERABLE,)
    dies: tuple[str, ...] = ()
