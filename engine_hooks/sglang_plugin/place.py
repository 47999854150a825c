"""Where in the node a scheduler process stands, and how its emitter and those of its sibling ranks are named."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from engine_hooks.sglang_plugin.dialects import ranks_of


@dataclass(frozen=True, slots=True)
class Host:
    """What the settings say of this host: the prefix of its emitters, and where it stands."""

    prefix: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of a node. A data-parallel replica sees other requests: it is a node of its own.

    `rank` counts within the node, `tp_rank` as the engine does; `width` is the number of tensor-parallel ranks that the
    node has, `stages` that of its pipeline stages. `replicas` and `hosts` are those of the whole engine.
    """

    rank: int
    tp_rank: int
    pp_rank: int
    width: int
    stages: int
    replica: int
    replicas: int
    hosts: int

    @classmethod
    def of(cls, scheduler: Any) -> Place:
        """Where this scheduler stands."""
        parallel, arguments = ranks_of(scheduler), scheduler.server_args
        tp_rank, pp_rank = int(parallel.tp_rank), int(parallel.pp_rank)
        width, replica = int(arguments.tp_size), 0
        if arguments.dp_size > 1:
            if arguments.enable_dp_attention:
                width = int(parallel.attn_tp_size)
                replica = tp_rank // width
            else:
                holder = getattr(scheduler, "ps", parallel)
                replica = int(holder.dp_rank or 0)
        return cls(
            rank=pp_rank * width + tp_rank % width,
            tp_rank=tp_rank,
            pp_rank=pp_rank,
            width=width,
            stages=int(arguments.pp_size),
            replica=replica,
            replicas=int(arguments.dp_size),
            hosts=int(getattr(arguments, "nnodes", 1) or 1),
        )

    @property
    def ranks(self) -> int:
        """How many ranks the node has."""
        return self.width * self.stages

    @property
    def label(self) -> str:
        """Its part of the emitter's name: ``tp0``, ``dp1-tp3-pp0``."""
        return self._label(self.tp_rank, self.pp_rank)

    def labels(self) -> list[str]:
        """The labels of every rank of the node in the order of the ranks; each of them comes to the same list. Empty
        where the node spans hosts: nobody here knows what the others call their emitters."""
        if self.hosts > 1:
            return []
        first = self.tp_rank - self.tp_rank % self.width
        return [self._label(first + tp, pp) for pp in range(self.stages) for tp in range(self.width)]

    def node_id(self, node_boot: bytes) -> bytes:
        """The id (16 bytes) of the node in the boot of its parent process."""
        if not self.replica:
            return node_boot
        message = node_boot + self.replica.to_bytes(4, "little")
        return hashlib.blake2b(message, digest_size=16, person=b"pw.replica").digest()

    def _label(self, tp_rank: int, pp_rank: int) -> str:
        parts = [f"dp{self.replica}"] if self.replicas > 1 else []
        parts.append(f"tp{tp_rank}")
        parts += [f"pp{pp_rank}"] if self.stages > 1 else []
        return "-".join(parts)
