"""The parts of the plugin, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine_hooks.identity import EvidenceKey, Key
from engine_hooks.recorder import Recorder
from engine_hooks.sglang_plugin.admission import Admission
from engine_hooks.sglang_plugin.alarms import Alarms
from engine_hooks.sglang_plugin.boundary import Boundary
from engine_hooks.sglang_plugin.concluded import Concluded
from engine_hooks.sglang_plugin.copies import Copies
from engine_hooks.sglang_plugin.deferral import Deferral
from engine_hooks.sglang_plugin.exact_steps import ExactSteps
from engine_hooks.sglang_plugin.host_tier import HostTier
from engine_hooks.sglang_plugin.legs import Legs
from engine_hooks.sglang_plugin.node import Node
from engine_hooks.sglang_plugin.older import Older
from engine_hooks.sglang_plugin.pages import Pages
from engine_hooks.sglang_plugin.place import Host
from engine_hooks.sglang_plugin.release import Release
from engine_hooks.sglang_plugin.response import Response
from engine_hooks.sglang_plugin.rooms import Rooms
from engine_hooks.sglang_plugin.sharing import Sharing
from engine_hooks.sglang_plugin.slots import Slots
from engine_hooks.sglang_plugin.steps import Steps
from engine_hooks.sglang_plugin.transfer import Transfer

_NO_HOST = Host()


@dataclass(frozen=True, slots=True)
class Parts:
    """What `attach` needs, and what a test looks at. `handlers` are keyed as in the table of targets."""

    legs: Legs
    node: Node
    boundary: Boundary
    copies: Copies
    handlers: dict[str, Any]


def build(
    evidence_key: Key,
    mac_keys: tuple[Key, ...],
    node_boot: bytes,
    open_recorder: Callable[[str], Recorder],
    tier: str = "control",
    host: Host = _NO_HOST,
) -> Parts:
    """Everything that one scheduler process needs; nothing is recorded before the node part has opened the ring."""
    legs = Legs(EvidenceKey(evidence_key), mac_keys, node_boot)
    legs.limits.tier = tier
    copies = Copies(lambda: legs.recorder.ring.last_seq if legs.recorder is not None else 0)
    rooms, sharing, slots, host_tier, alarms = Rooms(), Sharing(legs), Slots(legs), HostTier(legs), Alarms(legs, copies)
    transfer = Transfer(legs, rooms, sharing, slots)
    steps = Steps(legs, sharing)
    node = Node(legs, open_recorder, host, alarms.watch)
    release, response = Release(legs, transfer, copies, sharing, host_tier), Response(legs, transfer, copies)
    handlers = {
        "node": node,
        "admission": Admission(legs),
        "transfer": transfer,
        "steps": steps,
        "exact_steps": ExactSteps(legs, steps),
        "pages": Pages(legs, copies),
        "release": release,
        "response": response,
        "older": Older(legs, transfer, release, response),
        "concluded": Concluded(legs, rooms),
        "slots": slots,
        "alarms": alarms,
        "host_tier": host_tier,
        "deferral": Deferral(legs),
    }
    return Parts(legs, node, Boundary(legs.failed, node.hook_switched_off), copies, handlers)
