"""On a device the ids of a leg's pages arrive after its release: the fact comes later than what it tells of, and says
after which fact that was. Against content truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.queries import Queries
from engine_hooks import conventions as c
from tests.detectors.test_soundness import ASKS, FIXTURES, hold_against_content, judge, owners, play
from tests.support.otlp import Fact
from tests.support.toy_pair import Emitter

pytestmark = pytest.mark.slow

Post = Callable[[list[Fact]], None]


def delayed(emitter: Emitter, by: int) -> list[Fact]:
    """The emitter's facts as a device has it: each release `by` facts later, and the end of its leg behind it."""
    order: list[tuple[int, int, Fact]] = []
    release_at: dict[str, int] = {}
    for place, one in enumerate(emitter.facts):
        if one.span == "pagewitness.page.release":
            release_at[one.uid] = place
        late = one.span in ("pagewitness.page.release", "pagewitness.request.end") and one.uid in release_at
        order.append((place + by if late else place, place, one))
    order.sort(key=lambda entry: (entry[0], entry[1]))
    seq_of = {place: seq for seq, (_, place, _) in enumerate(order, start=1)}
    ordinals: dict[str, int] = {}
    made = []
    for _, place, one in order:
        attributes: dict[str, Any] = {**one.attributes, c.SEQ.name: seq_of[place]}
        if c.ORDINAL.name in attributes:
            ordinals[one.uid] = attributes[c.ORDINAL.name] = ordinals.get(one.uid, 0) + 1
        if one.span == "pagewitness.page.release":
            # the newest fact that was recorded before the engine gave the pages up
            attributes[c.AFTER_SEQ.name] = max(
                seq_of[earlier] for when, earlier, _ in order if earlier < place and when <= place
            )
        made.append(replace(one, attributes=attributes))
    return made


@FIXTURES
@given(asks=ASKS, seed=st.integers(0, 99), lifo=st.booleans(), by=st.integers(1, 12))
def test_however_late_a_release_comes_every_owner_is_the_content_truth(
    store: Queries, post: Post, asks: list[tuple[str, int, int, str]], seed: int, lifo: bool, by: int
) -> None:
    pair = play(asks, seed, lifo, vulnerable=True)
    post([*delayed(pair.prefill, by), *delayed(pair.decode, by), *pair.agent.facts])
    hold_against_content(store, asks, pair)


@FIXTURES
@given(data=st.data(), asks=ASKS, seed=st.integers(0, 99), lifo=st.booleans())
def test_while_a_release_has_not_come_yet_nobody_older_is_named(
    store: Queries, post: Post, data: st.DataObject, asks: list[tuple[str, int, int, str]], seed: int, lifo: bool
) -> None:
    pair = play(asks, seed, lifo, vulnerable=True)
    by = data.draw(st.integers(1, 30))
    rest = list(pair.agent.facts)
    for emitter in (pair.prefill, pair.decode):  # what has been posted so far: no seq is missing in it
        facts = delayed(emitter, by)
        cut = data.draw(st.integers(1, len(facts)))
        post(facts[:cut])
        rest += facts[cut:]
    judge(store, pair)
    rids = {one.uid: one.attributes[c.RID.name] for one in pair.facts if c.RID.name in one.attributes}
    names = {rids[uid]: name for name, uid in pair.uids.items()}
    wrong = []
    for name, read in pair.truth.items():
        for where, part in owners(store, read).items():
            said = names[part["donor_rid"]] if part["donor_rid"] else None
            if part["scope"] != "unattributed" and said != read.foreign[where]:
                wrong.append((name, where, part))
    post(rest)  # first, so that no example leaves the next ones something pending
    judge(store, pair)
    assert not wrong
