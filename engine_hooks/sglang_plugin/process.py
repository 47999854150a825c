"""Which of the engine's processes this is, and the one number that all of a node's processes share.

SGLang loads plugins in the main process first, then again in each process that it starts. The main process draws the
node boot and leaves it in the environment; the schedulers inherit it, so that every rank makes the same uids.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import MutableMapping
from types import FrameType

NODE_BOOT = "PAGEWITNESS_NODE_BOOT"
_OTHER_ENTRIES = frozenset({"run_detokenizer_process", "run_data_parallel_controller_process"})
_SCHEDULER_ENTRY = "run_scheduler_process"


def inherit_node_boot(environment: MutableMapping[str, str]) -> bytes:
    """The node boot (16 bytes): inherited, or drawn here and left in the environment for the processes to come."""
    try:
        boot = bytes.fromhex(environment.get(NODE_BOOT, ""))
    except ValueError:
        boot = b""
    if len(boot) != 16:
        boot = os.urandom(16)
        environment[NODE_BOOT] = boot.hex()
    return boot


def is_scheduler() -> bool:
    """Whether the call comes from a process that the engine started as a scheduler.

    A child process whose entry point is unknown counts as one: a scheduler without hooks would be silent, another
    process with hooks only never runs them.
    """
    entries = _functions_on_stack()
    if _SCHEDULER_ENTRY in entries:
        return True
    return multiprocessing.parent_process() is not None and not entries & _OTHER_ENTRIES


def _functions_on_stack() -> set[str]:
    # the interpreter's own way to walk the stack: `inspect.stack` would read source files
    frame: FrameType | None = sys._getframe()
    names = set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names
