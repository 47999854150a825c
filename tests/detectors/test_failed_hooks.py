"""A hook that fails records nothing and leaves no hole in the seqs: only ordinals tell. Against content truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.queries import Queries
from engine_hooks import conventions as c
from tests.detectors.test_soundness import ASKS, FIXTURES, judge, owners, play
from tests.support.otlp import Fact

pytestmark = pytest.mark.slow

Post = Callable[[list[Fact]], None]

NOBODY_KNOWS = 1 << 62
"""What the hooks say for a total of a leg of which a fact could not be recorded."""


def with_failures(facts: list[Fact], failed: set[tuple[str, int]]) -> list[Fact]:
    """The facts as they are where the hooks failed on those (uid, ordinal): not recorded, no seq used up, and what the
    leg says later no longer claims to be all."""
    recorded: list[Fact] = []
    next_seq: dict[tuple[str, str], int] = {}
    struck: set[str] = set()
    for one in facts:
        if (one.uid, one.attributes.get(c.ORDINAL.name)) in failed:
            struck.add(one.uid)
            continue
        emitter = (one.emitter, one.boot)
        seq = next_seq[emitter] = next_seq.get(emitter, 0) + 1
        attributes: dict[str, Any] = {**one.attributes, c.SEQ.name: seq}
        if one.uid in struck and one.span == "pagewitness.request.end":
            attributes |= {c.QUEUED_PAGES.name: NOBODY_KNOWS, c.QUEUED_TOKENS.name: NOBODY_KNOWS}
        if one.uid in struck and one.span == "pagewitness.page.release":
            attributes |= {c.PAGES_COMPLETE.name: False}
        recorded.append(replace(one, attributes=attributes))
    return recorded


@FIXTURES
@given(data=st.data(), asks=ASKS, seed=st.integers(0, 99), lifo=st.booleans())
def test_whatever_hook_fails_nothing_affected_is_called_clean_and_no_owner_is_wrong(
    store: Queries, post: Post, data: st.DataObject, asks: list[tuple[str, int, int, str]], seed: int, lifo: bool
) -> None:
    pair = play(asks, seed, lifo, vulnerable=True)
    of_legs = [(one.uid, one.attributes[c.ORDINAL.name]) for one in pair.facts if c.ORDINAL.name in one.attributes]
    post(with_failures(pair.facts, data.draw(st.sets(st.sampled_from(of_legs), min_size=1, max_size=4))))
    verdicts = judge(store, pair)
    rids = {one.uid: one.attributes[c.RID.name] for one in pair.facts if c.RID.name in one.attributes}
    names = {rids[uid]: name for name, uid in pair.uids.items()}
    for name, read in pair.truth.items():
        verdict = verdicts.get(read.uid, {"verdict": "never seen"})["verdict"]
        assert not (read.foreign and verdict == "clean"), (name, verdicts[read.uid])
        assert not (not read.foreign and verdict == "violation"), (name, verdicts[read.uid])
        for where, part in owners(store, read).items():
            if part["donor_rid"]:
                assert names[part["donor_rid"]] == read.foreign[where], (name, where, part)
            elif part["scope"] == "no_writer":
                assert read.foreign[where] is None, (name, where, part)
