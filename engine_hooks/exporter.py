"""Delivers messages to the receiver: when to try, how long to wait, and what to do about one that it refuses.

Nothing is given up but a single span that the receiver refuses by itself (400 or 413), and that only after the same
receiver took an empty export: an address that answers 400 to everything is a wrong address, not a bad span.
"""

from __future__ import annotations

import gzip
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine_hooks.batch import describe, split
from engine_hooks.transport import Answer, Outcome, Transport

_log = logging.getLogger(__name__)
MAX_RETRY_AFTER_SECONDS = 300.0
_LOG_EVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a message: OK (with how many of its spans the receiver refused), RETRY or DENIED."""

    outcome: Outcome
    refused: int = 0
    status: int = 0


class Exporter:
    """Posts through a transport and keeps the pause after a failure: `base` seconds, doubling up to `ceiling`, each
    drawn between half and all of it, or what the receiver asked for if that is longer."""

    def __init__(
        self,
        transport: Transport,
        base: float = 0.5,
        ceiling: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._base, self._ceiling, self._clock = base, ceiling, clock
        self._failures = 0
        self._not_before = 0.0
        self._failing_since = 0.0
        self._next_log = 0.0

    @property
    def wait_seconds(self) -> float:
        """How long until the next attempt is due; 0 = now."""
        return max(self._not_before - self._clock(), 0.0)

    @property
    def outage_seconds(self) -> float:
        """How long the receiver has taken nothing; 0 = it did last time."""
        return self._clock() - self._failing_since if self._failures else 0.0

    def deliver(self, body: bytes, subject: str) -> Delivery:
        """Post a message (uncompressed OTLP) about `subject`, an emitter."""
        return self._settle(self._transport.post(body), lambda: body, subject)

    def deliver_compressed(self, packed: bytes, subject: str) -> Delivery:
        """As `deliver`, for a message that is gzipped already."""
        return self._settle(self._transport.post_compressed(packed), lambda: gzip.decompress(packed), subject)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _settle(self, answer: Answer, body: Callable[[], bytes], subject: str) -> Delivery:
        if answer.outcome is Outcome.REFUSED:
            return self._bisect(answer, body(), subject)
        return self._conclude(answer, subject, answer.rejected)

    def _bisect(self, answer: Answer, body: bytes, subject: str) -> Delivery:
        empty = self._transport.post(b"")
        if empty.outcome is Outcome.REFUSED:
            return self._conclude(
                Answer(
                    Outcome.RETRY,
                    f"{answer.detail}; it refuses even an empty export, so it is no OTLP receiver: "
                    "check PAGEWITNESS_EXPORT_URL",
                ),
                subject,
            )
        if empty.outcome is not Outcome.OK:
            return self._conclude(empty, subject)
        refused: list[tuple[bytes, Answer]] = []
        last = self._narrow(answer, body, refused)
        if last.outcome is not Outcome.OK:
            return self._conclude(last, subject)  # the whole message again, later: repeats change nothing
        for span, why in refused:
            _log.error("%s: dropped one fact that the receiver refuses (%s): %s", subject, why.detail, describe(span))
        return self._conclude(last, subject, len(refused) + last.rejected)

    def _narrow(self, answer: Answer, body: bytes, refused: list[tuple[bytes, Answer]]) -> Answer:
        """Post a refused message in halves down to single spans. Stops at the first answer that is neither."""
        halves = split(body)
        if halves is None:
            refused.append((body, answer))
            return Answer(Outcome.OK, "")
        rejected = 0
        for half in halves:
            answer = self._transport.post(half)
            if answer.outcome is Outcome.REFUSED:
                answer = self._narrow(answer, half, refused)
            if answer.outcome is not Outcome.OK:
                return answer
            rejected += answer.rejected
        return Answer(Outcome.OK, "", rejected=rejected)

    def _conclude(self, answer: Answer, subject: str, refused: int = 0) -> Delivery:
        if answer.outcome is Outcome.OK:
            if answer.rejected:
                _log.error("%s: the receiver did not store %d facts: %s", subject, answer.rejected, answer.detail)
            if self._failures:
                _log.info("the receiver takes facts again after %.0f s", self.outage_seconds)
            self._failures = 0
            self._not_before = 0.0
            return Delivery(Outcome.OK, refused, answer.status)
        if answer.outcome is Outcome.DENIED:
            _log.error(
                "%s: the receiver denies the token (%s). The facts are kept. Mint a token for the prefix %r on the "
                "pagewitness host and put it into the token file; it is read again by itself",
                subject, answer.detail, subject.partition("/")[0],
            )  # fmt: skip
            if answer.status == 403:  # this emitter only: the others go on
                return Delivery(Outcome.DENIED, status=answer.status)
        self._pause(answer)
        return Delivery(answer.outcome, status=answer.status)

    def _pause(self, answer: Answer) -> None:
        now = self._clock()
        if not self._failures:
            self._failing_since = now
            self._next_log = now
        pause = min(self._base * 2 ** min(self._failures, 16), self._ceiling) * random.uniform(0.5, 1.0)
        asked = min(answer.retry_after or 0.0, MAX_RETRY_AFTER_SECONDS)
        self._failures += 1
        self._not_before = now + max(pause, asked)
        if answer.outcome is Outcome.RETRY and now >= self._next_log:
            self._next_log = now + _LOG_EVERY_SECONDS
            _log.warning("the receiver takes nothing (%s). The facts are kept; next try in %.1f s", answer.detail,
                         self._not_before - now)  # fmt: skip
