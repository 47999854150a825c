"""The scripted requests of the lab: who asks what, in which order, and what the client saw.

A story is data (`Ask`s in order); `play` sends it, one request after the other. Each request is vouched for as a
gateway does it: a `cache_salt` with the tenant's pseudonym and a MAC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine_hooks.identity import Key, mint_salt, parse_keys
from lab.engine import keys
from lab.engine.client import Client, PairAnswer
from lab.engine.tenants import BY_NAME, count_markers, opening

ANSWER_TOKENS = 65
"""Answers are this long unless a story says otherwise: 64 slots, 4 pages of 16 (the last token is never written)."""

_FILLER = "the quick brown fox jumps over the lazy dog "
_WORDS_BETWEEN_MARKERS = 11  # characters of filler, one token each


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a story. `oversized`: it does not fit the prefill pool; it then holds no marker."""

    tenant: str
    prompt_tokens: int
    answer_tokens: int = ANSWER_TOKENS
    oversized: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request, as the client saw it. Holds no text.

    `status` is that of decode, where the answer comes from (0: none came). `echoed` counts the markers of *other*
    tenants in the answer, by tenant; `own` those of the tenant itself.
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


def prompt(ask: Ask, number: int) -> str:
    """The text of the request with this number in its run: exactly `ask.prompt_tokens` tokens of the echo model."""
    marker = None if ask.oversized else BY_NAME[ask.tenant].marker
    words = [opening(number)]
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


class Sender:
    """Sends the requests of one run, numbering them."""

    def __init__(self, client: Client, run: str) -> None:
        self._client = client
        self._run = run
        self._number = 0
        self._pseudonym_key = _only(keys.PSEUDONYM_KEY)
        self._mac_key = _only(keys.MAC_KEY)

    def send(self, ask: Ask) -> Outcome:
        """Send one request to both nodes and wait for both answers."""
        number = self._number
        self._number += 1
        rid = rid_of(self._run, number)
        body = {
            "text": prompt(ask, number),
            "rid": rid,
            "cache_salt": mint_salt(ask.tenant, pseudonym_key=self._pseudonym_key, mac_key=self._mac_key),
            "sampling_params": {"max_new_tokens": ask.answer_tokens, "temperature": 0, "ignore_eos": True},
        }
        return outcome_of(ask, rid, self._client.ask(body, room=room_of(rid)))


def _only(text: str) -> Key:
    (key,) = parse_keys(text)
    return key


def outcome_of(ask: Ask, rid: str, answer: PairAnswer) -> Outcome:
    """What the client saw, without a word of it."""
    markers = count_markers(answer.decode.text)
    own = markers.pop(ask.tenant, 0)
    return Outcome(
        rid=rid, tenant=ask.tenant, oversized=ask.oversized, prefill_status=answer.prefill.status,
        status=answer.decode.status, finish=answer.decode.finish,
        output_tokens=int(answer.decode.meta.get("completion_tokens", 0)), own=own, echoed=markers,
    )  # fmt: skip


def play(story: Iterable[Ask], sender: Sender, seen: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:
    """Send a story in order; `seen` is called with each outcome as it comes."""
    outcomes = []
    for ask in story:
        outcomes.append(sender.send(ask))
        seen(outcomes[-1])
    return outcomes
