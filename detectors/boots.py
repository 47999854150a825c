"""What is known of each emitter boot: its configuration, how far its agent vouches for it, whether it lives.

The watermark is the time up to which every living boot is vouched for: before it, a fact that is not here was lost.
An emitter whose agent has been silent for longer than a set time leaves the minimum and counts as a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from detectors.clocks import Clocks
from detectors.queries import Queries
from engine_hooks.conventions import CONTRACT_VERSION

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
LARGEST_PAGE = 1 << 20
"""Tokens a page; a configuration that says more is not believed."""

NO_SEQ_ABOVE = 2**63 - 1
FAR = datetime.fromisoformat("2200-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What one boot said of its node."""

    node: str
    role: str
    rank: int
    ranks: int
    model: str
    page_size: int
    input_limit: int
    hooks_missing: tuple[str, ...]
    rank_names: tuple[str, ...] = ()  # emitters of every rank, where the node says them
    contract: int = CONTRACT_VERSION  # version of the evidence contract that it speaks


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One word of an agent on a boot, as far as drops go."""

    attested: datetime
    drops: int
    high_water: int


@dataclass(slots=True)
class Boot:
    """One life of one emitter. `attested` is EPOCH while no agent spoke, FAR once the boot was closed and drained."""

    emitter: str
    boot: str
    config: NodeConfig | None = None
    heard: datetime = EPOCH  # when its latest fact, or word of its agent, reached the store
    attested: datetime = EPOCH  # everything recorded before this time was acknowledged
    last_word: datetime = EPOCH  # the same, closed or not
    closed: bool = False
    heartbeats: list[Heartbeat] = field(default_factory=list)  # by attested time; only where facts were dropped

    def silent(self, now: datetime, limit: timedelta) -> bool:
        """Whether nothing has been heard of an open boot, from itself or its agent, for longer than the limit."""
        return not self.closed and now - self.heard > limit

    def dropped_between(self, start: datetime, end: datetime) -> bool:
        """Whether the ring's drop count may have risen between two times, as far as heartbeats tell."""
        times = [beat.attested for beat in self.heartbeats]
        before = bisect_right(times, start) - 1
        low = self.heartbeats[before].drops if before >= 0 else 0
        after = bisect_right(times, end)
        # the first heartbeat past the end counts too: its drops may have happened just before the end
        return any(beat.drops > low for beat in self.heartbeats[max(before, 0) : after + 1])

    def drop_holes(self) -> list[int]:
        """Seqs at or below which facts may have been dropped: no seq was used up, so only the drop count tells.

        A rise between two heartbeats happened at a seq no higher than what the *next* heartbeat after them vouches
        for, because facts written before the count was read may have been acknowledged only then.
        """
        holes = []
        low = 0
        for index, beat in enumerate(self.heartbeats):
            if beat.drops > low:
                low = beat.drops
                later = self.heartbeats[index + 1 :]
                holes.append(later[0].high_water if later else NO_SEQ_ABOVE)
        return holes


class Boots:
    """Every boot that evidence or an agent named."""

    def __init__(self, boots: Sequence[Boot]) -> None:
        self._by_identity = {(boot.emitter, boot.boot): boot for boot in boots}

    def get(self, emitter: str, boot: str) -> Boot:
        """The boot; one that was not there when the boots were read has only just appeared: open, and not silent."""
        return self._by_identity.get((emitter, boot)) or Boot(emitter, boot, heard=FAR)

    def watermark(self, now: datetime, silence: timedelta, clocks: Clocks) -> datetime:
        """Time, by the receiver's clock, before which no living, heard emitter has anything left to post.

        EPOCH when no agent ever spoke. What an agent attests is by the clock of its host.
        """
        boots = self._by_identity.values()
        living = [boot for boot in boots if not boot.closed and not boot.silent(now, silence)]
        if living:
            return min(_received(boot, boot.attested, clocks) for boot in living)
        return max((_received(boot, boot.last_word, clocks) for boot in boots), default=EPOCH)

    def silent(self, now: datetime, limit: timedelta) -> set[tuple[str, str]]:
        """(emitter, boot) of every open boot of which nothing has been heard for longer than the limit."""
        return {identity for identity, boot in self._by_identity.items() if boot.silent(now, limit)}

    def ranks_of(self, node: str) -> set[int]:
        """Ranks of a node that have reported a configuration."""
        return {boot.config.rank for boot in self._of_node(node) if boot.config}

    def unheard_ranks(self, node: str) -> set[str]:
        """Emitters that a rank of the node lists as its ranks, and that have reported no configuration of this node."""
        boots = self._of_node(node)
        listed = {name for boot in boots if boot.config for name in boot.config.rank_names}
        return listed - {boot.emitter for boot in boots}

    def _of_node(self, node: str) -> list[Boot]:
        return [boot for boot in self._by_identity.values() if boot.config and boot.config.node == node]


def _received(boot: Boot, attested: datetime, clocks: Clocks) -> datetime:
    """A time that an agent attested, by the receiver's clock, at the earliest."""
    return attested + clocks.to_receiver(boot.emitter, boot.boot, attested).low if attested > EPOCH else EPOCH


_ACTIVITY = "SELECT emitter, boot, max(heard) AS heard FROM boot_activity GROUP BY emitter, boot"
_WORDS = (
    "SELECT subject_emitter, subject_boot, max(attested) AS attested, max(closed) AS closed, max(drops) AS drops,"
    " max(heard) AS heard FROM boot_words GROUP BY subject_emitter, subject_boot"
)
_DROPS = (
    "SELECT subject_emitter, subject_boot, attested, drops, seq_high_water FROM facts"
    " WHERE span = 'pagewitness.emitter' AND subject_boot IN {boots:Array(String)}"
    " AND extract(emitter, '^(.*)/[^/]*$') = extract(subject_emitter, '^(.*)/[^/]*$') ORDER BY attested, drops"
)


def load_boots(store: Queries) -> Boots:
    """Read what is known of every boot."""
    boots: dict[tuple[str, str], Boot] = {}
    for row in store.rows(_ACTIVITY):
        boots[row["emitter"], row["boot"]] = Boot(row["emitter"], row["boot"], heard=row["heard"])
    for row in store.rows("SELECT * FROM nodes"):
        if row["settings"] > 1 or not 0 < row["page_size"] <= LARGEST_PAGE:
            continue  # a boot that says two things of itself has said nothing
        boots.setdefault((row["emitter"], row["boot"]), Boot(row["emitter"], row["boot"])).config = NodeConfig(
            node=row["node"],
            role=row["role"],
            rank=row["rank"],
            ranks=row["ranks"],
            model=row["model"],
            page_size=row["page_size"],
            input_limit=row["input_limit"],
            hooks_missing=tuple(row["hooks_missing"]),
            contract=row["contract"],
            rank_names=tuple(row["rank_names"]),
        )
    dropping = []
    for row in store.rows(_WORDS):
        identity = (row["subject_emitter"], row["subject_boot"])
        boot = boots.setdefault(identity, Boot(*identity))
        boot.last_word = _time(row["attested"])
        boot.closed = bool(row["closed"])
        boot.attested = FAR if boot.closed else boot.last_word
        boot.heard = max(boot.heard, row["heard"])
        if row["drops"]:
            dropping.append(row["subject_boot"])
    if dropping:
        for row in store.rows(_DROPS, {"boots": dropping}):
            identity = (row["subject_emitter"], row["subject_boot"])
            if identity in boots:
                boots[identity].heartbeats.append(
                    Heartbeat(_time(row["attested"]), row["drops"], row["seq_high_water"])
                )
    return Boots(list(boots.values()))


def _time(unix_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=unix_ns // 1000)
