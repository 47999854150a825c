"""The parts of the plugin, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine_hooks.identity import EvidenceKey, Key
from engine_hooks.recorder import Recorder
from engine_hooks.sglang_plugin.admission import Admission
from engine_hooks.sglang_plugin.boundary import Boundary
from engine_hooks.sglang_plugin.legs import Legs
from engine_hooks.sglang_plugin.node import Node
from engine_hooks.sglang_plugin.release import Release
from engine_hooks.sglang_plugin.response import Response
from engine_hooks.sglang_plugin.steps import Steps
from engine_hooks.sglang_plugin.transfer import Transfer


@dataclass(frozen=True, slots=True)
class Parts:
    """What `attach` needs, and what a test looks at. `handlers` are keyed as in the table of targets."""

    legs: Legs
    node: Node
    boundary: Boundary
    handlers: dict[str, Any]


def build(
    evidence_key: Key, mac_keys: tuple[Key, ...], node_boot: bytes, open_recorder: Callable[[str], Recorder]
) -> Parts:
    """Everything that one scheduler process needs; nothing is recorded before the node part has opened the ring."""
    legs = Legs(EvidenceKey(evidence_key), mac_keys, node_boot)
    transfer = Transfer(legs)
    node = Node(legs, open_recorder)
    handlers = {
        "node": node,
        "admission": Admission(legs),
        "transfer": transfer,
        "steps": Steps(legs),
        "release": Release(legs, transfer),
        "response": Response(legs, transfer),
    }
    return Parts(legs, node, Boundary(legs.failed, node.hook_switched_off), handlers)
