"""The scripted requests of the lab: who asks what, in which order, and what the client saw.

Each request is vouched for as a gateway does it, unless it says otherwise: a `cache_salt` with the tenant's pseudonym
and a MAC. `play` sends requests one after the other; `Sender.begin` leaves one under way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engine_hooks.identity import Key, mint_salt, parse_keys
from lab.engine import keys
from lab.engine.client import Client, PairAnswer, Sent
from lab.engine.servers import PORTS
from lab.engine.tenants import BY_NAME, count_markers, opening

ANSWER_TOKENS = 65
"""Answers are this long unless a story says otherwise: 64 slots, 4 pages of 16 (the last token is never written)."""

FAKE_HOST = "2.2.2.2"
"""`FAKE_BOOTSTRAP_HOST` of the engine: a request that names it is served without any transfer."""

HUNG_UP, ABORTED, KILLED = "hung_up", "aborted", "killed"
"""What is done to a request under way: its client goes away, someone aborts it, a node of it is killed."""

_FILLER = "the quick brown fox jumps over the lazy dog "
_WORDS_BETWEEN_MARKERS = 11  # characters of filler, one token each


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a story.

    `oversized`: it does not fit the prefill pool. `fake`: decode alone gets it, with the address at which the engine
    takes every transfer for done. `opening`: the number of its first token, its own if None; requests with one opening
    have one text, as far as each goes. None of these holds a marker. `salted`: whether it is vouched for.
    """

    tenant: str
    prompt_tokens: int
    answer_tokens: int = ANSWER_TOKENS
    oversized: bool = False
    fake: bool = False
    opening: int | None = None
    salted: bool = True

    @property
    def marked(self) -> bool:
        """Whether the prompt holds its tenant's marker."""
        return not (self.oversized or self.fake or self.opening is not None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request, as the client saw it. Holds no text.

    `status` is that of decode, where the answer comes from (0: none came). `echoed` counts the markers of *other*
    tenants in the answer, by tenant; `own` those of the tenant itself. `did`: what was done while it was under way
    (HUNG_UP, ABORTED, KILLED; empty: nothing). `fake`, `salted` and `marked` as in `Ask`.
    """

    rid: str
    tenant: str
    oversized: bool
    prefill_status: int
    status: int
    finish: str
    output_tokens: int
    own: int
    echoed: dict[str, int]
    did: str = ""
    fake: bool = False
    salted: bool = True
    marked: bool = True

    @property
    def ordinary(self) -> bool:
        """Whether nothing about it is out of the ordinary: it has to be answered, and to read nothing foreign."""
        return not (self.oversized or self.fake or self.did)


def prompt(ask: Ask, number: int) -> str:
    """The text of the request with this number in its run: exactly `ask.prompt_tokens` tokens of the echo model."""
    marker = BY_NAME[ask.tenant].marker if ask.marked else None
    words = [opening(number if ask.opening is None else ask.opening)]
    letters = 0
    while len(words) < ask.prompt_tokens:
        if marker and letters and letters % _WORDS_BETWEEN_MARKERS == 0 and words[-1] != marker:
            words.append(marker)
        else:
            words.append(_FILLER[letters % len(_FILLER)])
            letters += 1
    return "".join(words)


def rid_of(run: str, number: int) -> str:
    """The request id, of one length in a run: the engine's abort takes an id for a prefix of others."""
    return f"{run}-{number:06d}"


def room_of(rid: str) -> int:
    """The bootstrap room of a request: the same on both nodes, and no other request's."""
    return int.from_bytes(hashlib.blake2b(rid.encode(), digest_size=8).digest(), "little") >> 1


class Pending:
    """A request under way."""

    def __init__(self, ask: Ask, rid: str, sent: Sent) -> None:
        self.ask = ask
        self.rid = rid
        self.sent = sent

    def outcome(self, did: str = "") -> Outcome:
        """Wait for its end; `did` says what was done to it."""
        return outcome_of(self.ask, self.rid, self.sent.result(), did)


class Sender:
    """Sends the requests of one run, numbering them."""

    def __init__(self, client: Client, run: str) -> None:
        self._client = client
        self._run = run
        self._number = 0
        self._pseudonym_key = _only(keys.PSEUDONYM_KEY)
        self._mac_key = _only(keys.MAC_KEY)

    def begin(self, ask: Ask) -> Pending:
        """Send one request to the nodes that it is for, and leave it under way."""
        number = self._number
        self._number += 1
        rid = rid_of(self._run, number)
        body: dict[str, Any] = {
            "text": prompt(ask, number),
            "rid": rid,
            "sampling_params": {"max_new_tokens": ask.answer_tokens, "temperature": 0, "ignore_eos": True},
        }
        if ask.salted:
            body["cache_salt"] = mint_salt(ask.tenant, pseudonym_key=self._pseudonym_key, mac_key=self._mac_key)
        if ask.fake:
            body["bootstrap_host"] = FAKE_HOST
        roles = ("decode",) if ask.fake else tuple(PORTS)
        return Pending(ask, rid, self._client.send(body, room=room_of(rid), roles=roles))

    def send(self, ask: Ask) -> Outcome:
        """Send one request, and wait for every answer."""
        return self.begin(ask).outcome()


def _only(text: str) -> Key:
    (key,) = parse_keys(text)
    return key


def outcome_of(ask: Ask, rid: str, answer: PairAnswer, did: str = "") -> Outcome:
    """What the client saw, without a word of it."""
    markers = count_markers(answer.decode.text)
    own = markers.pop(ask.tenant, 0)
    return Outcome(
        rid=rid, tenant=ask.tenant, oversized=ask.oversized, prefill_status=answer.prefill.status,
        status=answer.decode.status, finish=answer.decode.finish,
        output_tokens=int(answer.decode.meta.get("completion_tokens", 0)), own=own, echoed=markers, did=did,
        fake=ask.fake, salted=ask.salted, marked=ask.marked,
    )  # fmt: skip


def play(story: Iterable[Ask], sender: Sender, seen: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:
    """Send a story in order; `seen` is called with each outcome as it comes."""
    outcomes = []
    for ask in story:
        outcomes.append(sender.send(ask))
        seen(outcomes[-1])
    return outcomes
