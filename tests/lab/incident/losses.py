"""Lost telemetry, and what must hold with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from collector.store import Store
from detectors.runner import Runner
from lab.fleet.agent import Posted
from lab.incident.held import Result

LATER = timedelta(minutes=5)
"""By then, whoever is silent is known to be."""


def losing(seed: int, share: float, kept: list[bytes]) -> Callable[[Posted], bool]:
    """Loses so many of the bodies; those that get through go to `kept`."""
    draw = random.Random(seed)

    def keep(body: Posted) -> bool:
        if draw.random() < share:
            return False
        kept.append(body.data)
        return True

    return keep


def unknown_in(store: Store) -> set[str]:
    """Ids of responses that are unknown once nothing is waited for any more."""
    handle = store.handle()
    Runner(handle, now=lambda: datetime.now(UTC) + LATER).run_once()
    return {row["response_uid"] for row in handle.rows("SELECT response_uid FROM responses WHERE verdict = 'unknown'")}


def hold_with_losses(result: Result, unknown: set[str], kept: list[bytes]) -> None:
    """Nothing false is named, and of whom nobody is told it is said that nobody knows. Of a response all of whose facts
    were lost, nothing at all is said."""
    true = result.truth.by_label["customer"]
    assert result.affected <= true
    assert {row.response_id for row in result.everybodys.responses} <= result.truth.in_any_way
    for uid in true - result.affected:
        legs = {uid, result.truth.prefills[uid]}
        assert legs & unknown or not any(bytes.fromhex(leg) in body for leg in legs for body in kept), uid
