"""The verdict of one response, and why.

``violation`` stands as soon as a contamination rule fired: it rests on facts that are there. ``clean`` needs every fact
of both legs, a later word of both agents, known configurations and a rule set that is blind nowhere. What is missing
makes the verdict ``unknown``, or ``pending`` while the missing fact can still be under way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from detectors.boots import Boot, Boots
from detectors.catalogue import Rule
from detectors.clocks import Clocks
from detectors.coherence import faults
from detectors.joins import DECODE_NOT_SEEN, NO_PREFILL, Join
from detectors.landings import took_early
from detectors.legs import Leg
from detectors.resumptions import resumption_fits
from detectors.settings import DetectionSettings

LEG_NOT_SEEN = "leg_not_seen"
"""Why nothing is known of a response but that a gateway handed it to a client."""

REASONS: dict[str, str] = {
    "decode_leg_running": "the request is still being answered",
    "decode_leg_incomplete": "facts of the decode leg are missing",
    "decode_leg_never_ended": "the decode node went away before the leg ended",
    "prefill_leg_running": "the prefill leg has not ended yet",
    "prefill_leg_incomplete": "facts of the prefill leg are missing",
    "prefill_leg_never_ended": "the prefill node went away before the leg ended",
    "decode_not_attested": "no agent has vouched yet that all of the decode node's facts were posted",
    "prefill_not_attested": "no agent has vouched yet that all of the prefill node's facts were posted",
    "decode_emitter_silent": "nothing has been heard of the decode node's agent for too long",
    "prefill_emitter_silent": "nothing has been heard of the prefill node's agent for too long",
    "decode_facts_dropped": "the decode node dropped facts while the request ran",
    "prefill_facts_dropped": "the prefill node dropped facts while the request ran",
    "decode_config_unknown": "the decode node never said how it is configured",
    "prefill_config_unknown": "the prefill node never said how it is configured",
    "decode_rank_not_seen": "a rank of the decode node was not heard",
    "prefill_rank_not_seen": "a rank of the prefill node was not heard",
    "decode_rank_missing": "a rank that the decode node lists by name was never heard",
    "prefill_rank_missing": "a rank that the prefill node lists by name was never heard",
    "decode_contradicted": "two facts of the decode leg contradict each other",
    "prefill_contradicted": "two facts of the prefill leg contradict each other",
    "prefill_leg_retracted": "the prefill leg was retracted; its resumption is not followed by this rule set",
    "decode_incoherent": "the facts of the decode leg do not fit together",
    "prefill_incoherent": "the facts of the prefill leg do not fit together",
    "prompt_mismatch": "the two legs had prompts of different length",
    "page_size_mismatch": "the two nodes have pages of different size",
    "peer_not_seen": "no prefill leg of this request was seen",
    DECODE_NOT_SEEN: "a prefill leg of this request was seen, and no decode leg",
    NO_PREFILL: "the engine's fake backend stood in for a prefill node: nothing filled the pages that it read",
    "ambiguous_join": "several legs could belong together (a room was used more than once)",
    "join_mismatch": "the legs of this room name different destinations",
    LEG_NOT_SEEN: "a gateway delivered this response, and no leg of it was seen on any node",
    "tenant_mismatch": "the legs, or the ranks of one leg, were filed under different tenants",
    "rule_blind": "a contamination rule lacks a fact that this node does not supply",
    "resumption_not_seen": "the decode leg was put aside, and no leg that goes on with it was seen",
    "resumed_unvouched": "it goes on with a leg that was put aside, of which not everything is known",
    "resumed_pending": "it goes on with a leg that was put aside and has no verdict yet",
    "read_before_landed": "decode read before every prefill rank had said that its part of the transfer had landed",
    "prefix_unattributed": "it reused cached pages whose writer is not known to be this tenant",
    "prefix_unvouched": "it reused cached pages that were computed by an attempt of which not everything is known",
    "prefix_pending": "it reused cached pages of a response that has no verdict yet",
    "role_not_covered": "the node both prefills and decodes; this rule set covers separate nodes",
}
"""Every reason that a verdict can carry, in words. The keys are stored."""

_ORDER = ("violation", "pending", "unknown", "clean")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`verdict` is violation, clean, unknown or pending; `reasons` are keys of REASONS, sorted."""

    verdict: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """What one pass judges with."""

    boots: Boots
    rules: tuple[Rule, ...]
    settings: DetectionSettings
    now: datetime
    watermark: datetime  # by the receiver's clock
    clocks: Clocks

    def decide(
        self, join: Join, contaminated: bool, prefix_gaps: Collection[str], prefix_waiting: Collection[str]
    ) -> Verdict:
        """The verdict of one decode leg on one rank. The last two are what is not known of cached pages it reused."""
        missing, waiting = self._gaps(join)
        missing += prefix_gaps
        waiting += prefix_waiting
        reasons = tuple(sorted({*missing, *waiting}))
        if contaminated:  # it stands on what is here; what may still come cannot change it, and is no gap
            return Verdict("violation", tuple(sorted(set(missing))))
        if missing:
            return Verdict("unknown", reasons)
        return Verdict("pending" if waiting else "clean", reasons)

    def _gaps(self, join: Join) -> tuple[list[str], list[str]]:
        """(lost for good, may still come)"""
        missing: list[str] = []
        waiting: list[str] = []
        if join.why_not == DECODE_NOT_SEEN:
            can_come = self.watermark <= self._seen_by(join.decode)
            return ([], [DECODE_NOT_SEEN]) if can_come else ([DECODE_NOT_SEEN], [])
        self._leg_gaps("decode", join.decode, missing, waiting)
        if join.decode.end_state == "retracted" and not join.continued:  # what its answer went on to read, nobody saw
            can_come = self.watermark <= self._seen_by(join.decode)
            (waiting if can_come else missing).append("resumption_not_seen")
        if join.why_not == NO_PREFILL:
            if join.decode.read_tokens is not None:
                missing.append(NO_PREFILL)
            if not self._alone_fits(join):
                missing.append("decode_incoherent")
        elif join.resumed is not None:
            if join.decode.ended is not None and not resumption_fits(join.decode, join.resumed):
                missing.append("decode_incoherent")
        elif join.prefill is None:
            can_come = join.why_not == "peer_not_seen" and self.watermark <= self._seen_by(join.decode)
            (waiting if can_come else missing).append(join.why_not)
        else:
            self._leg_gaps("prefill", join.prefill, missing, waiting)
            if join.prefill.tenant != join.decode.tenant:
                missing.append("tenant_mismatch")
            if join.decode.read_tokens is not None and took_early(join.decode, self._boot(join.decode).config):
                missing.append("read_before_landed")
            configs = [self.boots.get(leg.emitter, leg.boot).config for leg in (join.decode, join.prefill)]
            if join.decode.ended and join.prefill.ended and all(configs):
                missing += faults(join, *(config.page_size for config in configs if config))
        return missing, waiting

    def _alone_fits(self, join: Join) -> bool:
        """Whether a leg without a prefill node can have delivered what it did.

        Every token past the first comes out of a forward that read; and no token at all without a reservation.
        """
        leg = join.decode
        config = self.boots.get(leg.emitter, leg.boot).config
        if leg.ended is None or config is None:
            return True  # running, or of an unknown node: never clean as it is
        delivered = max(leg.tokens_delivered or 0, leg.output_tokens or 0)
        unread = delivered > 1 and leg.read_tokens is None
        return not unread and not faults(join, config.page_size, config.page_size)

    def _boot(self, leg: Leg) -> Boot:
        return self.boots.get(leg.emitter, leg.boot)

    def _seen_by(self, leg: Leg) -> datetime:
        """When a leg was last heard of, by the receiver's clock, at the latest."""
        at = leg.ended or leg.last_time
        return at + self.clocks.to_receiver(leg.emitter, leg.boot, at).high

    def _leg_gaps(self, role: str, leg: Leg, missing: list[str], waiting: list[str]) -> None:
        boot = self.boots.get(leg.emitter, leg.boot)
        silent = boot.silent(self.now, self.settings.silence)
        if leg.contradicted:
            missing.append(f"{role}_contradicted")
        if leg.end_state == "retracted" and role == "prefill":
            missing.append("prefill_leg_retracted")
        if leg.ended is None:
            if boot.closed:
                missing.append(f"{role}_leg_never_ended")
            elif silent:
                missing.append(f"{role}_emitter_silent")
            else:
                waiting.append(f"{role}_leg_running")
        else:
            vouched = boot.attested > leg.ended
            if not leg.complete and not leg.contradicted:
                (missing if vouched or silent else waiting).append(f"{role}_leg_incomplete")
            if not vouched:
                if silent:
                    missing.append(f"{role}_emitter_silent")
                else:
                    waiting.append(f"{role}_not_attested")
            if boot.dropped_between(leg.started, leg.ended):
                missing.append(f"{role}_facts_dropped")
        self._node_gaps(role, boot, leg, missing, waiting)

    def _node_gaps(self, role: str, boot: Boot, leg: Leg, missing: list[str], waiting: list[str]) -> None:
        if boot.config is None:
            later = boot.attested > (leg.ended or leg.last_time)
            (missing if later else waiting).append(f"{role}_config_unknown")
            return
        if boot.config.role == "unified":
            missing.append("role_not_covered")
        if len(self.boots.ranks_of(boot.config.node)) < boot.config.ranks:
            missing.append(f"{role}_rank_not_seen")
        if self.boots.unheard_ranks(boot.config.node):
            missing.append(f"{role}_rank_missing")
        unsupplied = set(boot.config.hooks_missing)
        if any(unsupplied & set(rule.inputs.get(role, ())) for rule in self.rules if rule.contaminates):
            missing.append("rule_blind")


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for the ranks of a leg: the worst one, with every rank's reasons."""
    worst = min((verdict.verdict for verdict in verdicts), key=_ORDER.index)
    return Verdict(worst, tuple(sorted({reason for verdict in verdicts for reason in verdict.reasons})))
