"""Whether a decode leg took its transfer for complete before prefill had said so.

Engines that say when a transfer has landed (SGLang 0.5.20 on) say it to decode, once for each prefill rank, and decode
waits for as many words as it expects. Both words and what decode does with them are facts of one process, so their
order is certain. The word itself is the engine's: that what it tells of was true, no fact can show.
"""

from __future__ import annotations

from detectors.boots import NodeConfig
from detectors.legs import Leg

LANDED = "transfer.landed"
_SAID_SINCE = 2
"""Version of the evidence contract that has this word: a node of an older one does not even miss it."""


def took_early(leg: Leg, config: NodeConfig | None) -> bool:
    """Whether it is known that the leg committed or read with words outstanding; False where the node hears none.

    A word that is not here may have been lost, so only a leg that lacks no fact, or whose words are all here and came
    later, is said to have been early.
    """
    if config is None or config.contract < _SAID_SINCE or LANDED in config.hooks_missing:
        return False
    used = min((seq for seq in (leg.commit_seq, leg.first_read_seq) if seq is not None), default=None)
    if used is None:
        return False
    needed = max(leg.peers or 1, 1)
    in_time = {rank for rank, seq in leg.landed if seq < used}
    all_known = leg.complete or len({rank for rank, _ in leg.landed}) >= needed
    return all_known and len(in_time) < needed
