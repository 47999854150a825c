"""Rule cases: a story of facts in a compact notation, with the findings and verdicts that it must give.

    title: an oversized prompt is rejected, and decode goes on
    source: https://…                  # the public report or document behind it
    tenants: {d1: acme, p1: acme}      # optional: every leg is acme's unless said otherwise
    rooms: {p2: 1, d2: 1}              # optional: these legs use the room of the legs with that number
    rids: {d2: 1}                      # optional: and these their request id
    facts:
      - P config input_limit=64        # P is the prefill node, D the decode node; each has a plain configuration
      - p1 admission.rejected need=1500 limit=1018
      - d1 transfer.reserved pages=10-19 prompt=160
      - "@70 d1 end.failed"            # 70 seconds after the story began
    expect:
      findings: [reject_then_continue] # all of them, as rule or rule.variant
      verdicts: {d1: violation}        # of every leg on D

A leg is named by its node's letter in lower case and a number; legs of one number share a room and a destination.
Ordinals, totals and the agent's closing words are filled in. `lost: true` at the end of a fact leaves it out *after*
counting it, as a lost fact would be.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from engine_hooks import conventions
from tests.support.otlp import Fact, fact

SPANS = {
    "config": "pagewitness.node.config",
    "admission": "pagewitness.request.admission",
    "transfer": "pagewitness.transfer",
    "read": "pagewitness.page.read",
    "share": "pagewitness.page.share",
    "write": "pagewitness.page.write",
    "release": "pagewitness.page.release",
    "response": "pagewitness.response",
    "end": "pagewitness.request.end",
}
WORDS = {
    "need": "tokens_need",
    "limit": "input_limit",
    "prompt": "prompt_tokens",
    "prefix": "prefix_tokens",
    "page": "chunk_page",
    "valid": "chunk_tokens",
    "total": "sender_pages",
    "length": "read_tokens",
    "in": "gen_ai_usage_input_tokens",
    "out": "gen_ai_usage_output_tokens",
    "delivered": "tokens_delivered",
    "tokens": "shared_tokens",
}
NO_WORD = "transfer.landed"
"""What engines before SGLang 0.5.20 never say, and the nodes of a case do not unless it says `missing=none`."""
NODES = {"P": "prefill", "D": "decode"}
START_NS = 1_790_000_000_000_000_000


@dataclass(frozen=True)
class Case:
    """One story, ready to post: `uids` maps the names of its legs on D to their uids."""

    path: Path
    facts: list[Fact]
    findings: list[str]
    verdicts: dict[str, str]
    uids: dict[str, str]
    subjects: set[str]


def load_case(path: Path) -> Case:
    """Read a case with fresh ids. Raises KeyError or ValueError with the word that it does not know."""
    return _Story(path, yaml.safe_load(path.read_text())).case()


class _Story:
    def __init__(self, path: Path, raw: dict[str, Any]) -> None:
        self.path, self.raw = path, raw
        self.tag = uuid.uuid4().hex
        self.seqs = {"P": 0, "D": 0}
        self.ordinals: dict[str, int] = {}
        self.queued: dict[str, list[int]] = {}
        self.facts: list[Fact] = []
        self.clock = START_NS

    def case(self) -> Case:
        given = [line for line in self.raw["facts"] if line.split()[1] == "config"]
        for node in "PD":
            own = [line for line in given if line.startswith(node)]
            self._add(own[0] if own else f"{node} config")
        for line in self.raw["facts"]:
            if line not in given:
                self._add(line)
        self._close()
        uids = {leg: self._id(leg) for leg in self.ordinals if leg.startswith("d")}
        subjects = {*uids.values(), "|".join(self._id(NODES[node]) for node in "PD")}
        expect = self.raw["expect"]
        return Case(self.path, self.facts, sorted(expect["findings"]), expect["verdicts"], uids, subjects)

    def _id(self, *parts: object, size: int = 16) -> str:
        from tests.support.toy_pair import hexdigest

        return hexdigest(self.tag, *parts, size=size)

    def _add(self, line: str) -> None:
        words = line.split()
        self.clock += 1_000_000
        if words[0].startswith("@"):
            self.clock = START_NS + int(float(words.pop(0)[1:]) * 1e9)
        who, what = words[0], words[1]
        span_word, _, variant = what.partition(".")
        span = conventions.SPANS_BY_NAME[SPANS[span_word]]
        node = who[0].upper()
        self.seqs[node] += 1
        named: dict[str, Any] = {
            "emitter": f"case/{NODES[node]}",
            "boot": self._id(node),
            "seq": self.seqs[node],
            "time_ns": self.clock,
        }
        if variant and span.variant is not None:
            named[conventions.column(span.variant.name)] = variant
        lost = "lost" in words[2:]
        for word in words[2:]:
            if word != "lost":
                named |= self._value(*word.split("="))
        if span_word == "config":
            named = {
                "page_size": 16,
                "node_role": NODES[node],
                "node_id": self._id(NODES[node]),
                "ranks": 1,
                "rank": 0,
                "hooks_missing": [NO_WORD],
                "input_limit": 4096,
            } | named
        else:
            named = self._leg(who, span_word, variant) | named
        if span_word == "transfer" and "pages" in named:
            named["page_count"] = len(cast(list[int], named["pages"]))
        if not lost:
            self.facts.append(fact(span.name, **named))

    def _leg(self, leg: str, span_word: str, variant: str) -> dict[str, Any]:
        """What every fact of a leg has, and what its kind needs."""
        number = leg[1:]
        self.ordinals[leg] = self.ordinals.get(leg, 0) + 1
        tenant = (self.raw.get("tenants") or {}).get(leg, "acme")
        common = {
            "uid": self._id(leg),
            "ordinal": self.ordinals[leg],
            "tenant": tenant if tenant == conventions.UNATTRIBUTED else self._id("tenant", tenant),
        }
        room = {"room": int(self._id("room", self._shared("rooms", leg), size=7), 16)}
        if span_word == "admission":
            return common | room | {"rid": self._id("rid", self._shared("rids", leg)), "tokens_need": 16}
        if span_word == "transfer":
            side = "receive" if leg.startswith("d") else "send"
            common |= {"transfer_side": side, "prefix_tokens": 0}
            if variant in ("reserved", "destination"):
                common |= room | {"transfer_session": "s", "transfer_destination": self._id("pages", number)}
        if span_word == "release":
            common |= {"pages_complete": True, "prefix_tokens": 0}
        if span_word == "end":
            common |= {"leg_facts": self.ordinals[leg], "queued_pages": 0, "queued_tokens": 0}
        return common

    def _shared(self, what: str, leg: str) -> str:
        """Number of the legs whose room or request id this one uses: its own, unless the case says another."""
        return str((self.raw.get(what) or {}).get(leg, leg[1:]))

    def _value(self, word: str, value: str) -> dict[str, Any]:
        if word == "pages":
            runs = [part.split("-") for part in value.split(",")]
            pages = [page for run in runs for page in range(int(run[0]), int(run[-1]) + 1)]
            return {"pages": pages}
        if word == "written":
            start, end = value.split("-")
            return {"written_start": int(start), "written_end": int(end)}
        if word == "missing":
            return {"hooks_missing": [] if value == "none" else [*value.split(","), NO_WORD]}
        if word == "resumes":
            return {"leg_resumes": self._id(value)}
        if word in ("names", "key_composition"):
            return {"rank_names" if word == "names" else word: value.split(",")}
        plain: int | str = int(value) if value.lstrip("-").isdigit() else value
        return {WORDS.get(word, word): plain}

    def _close(self) -> None:
        for seq, node in enumerate(self.raw.get("closes", "PD"), start=1):
            self.clock += 1_000_000_000
            self.facts.append(
                fact(
                    "pagewitness.emitter",
                    emitter="case/agent",
                    boot=self._id("agent"),
                    seq=seq,
                    time_ns=self.clock,
                    subject_emitter=f"case/{NODES[node]}",
                    subject_boot=self._id(node),
                    close="clean",
                    seq_high_water=self.seqs[node],
                    drops=(self.raw.get("drops") or {}).get(node, 0),
                    hook_errors=0,
                    attested=self.clock,
                )
            )
