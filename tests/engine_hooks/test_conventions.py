"""The contract is whole in itself: every loss shows somewhere, and every name that it mentions is one of its own."""

from __future__ import annotations

import re

import pytest

from engine_hooks import conventions as c

NAMES = {name for one in c.attributes() for name in (one.name, one.name.removeprefix("pagewitness."))}
WORDS = {word for one in c.attributes() for word in one.choices}
SPAN_NAMES = {name for span in c.SPANS for name in (span.name, span.name.removeprefix("pagewitness."))}


@pytest.mark.parametrize("span", c.SPANS, ids=lambda span: span.name)
def test_a_span_says_what_its_absence_would_mean_and_what_reveals_it(span: c.Span) -> None:
    for sentence in (span.brief, span.absence, span.revealed_by):
        assert sentence.endswith(".")


@pytest.mark.parametrize("span", c.SPANS, ids=lambda span: span.name)
def test_what_reveals_a_loss_is_in_the_contract(span: c.Span) -> None:
    assert set(re.findall(r"`([^`]+)`", span.absence + span.revealed_by)) <= NAMES | SPAN_NAMES | WORDS


def test_the_totals_that_reveal_a_loss_are_on_the_last_fact_of_a_leg() -> None:
    totals = {c.FACTS, c.QUEUED_PAGES, c.QUEUED_TOKENS, c.STEPS, c.ACQUIRED_PAGES}
    assert totals <= {field.attribute for field in c.REQUEST_END.fields}


def test_no_two_spans_share_a_code_or_a_name() -> None:
    assert len(c.SPANS_BY_CODE) == len(c.SPANS_BY_NAME) == len(c.SPANS)


def test_only_a_span_of_a_leg_may_do_without_one() -> None:
    assert all(span.leg for span in c.SPANS if span.legless)


def test_nothing_has_a_version_that_is_not_out_yet() -> None:
    versions = {since for span in c.SPANS for since in (span.since, *(field.since for field in span.fields))}
    assert versions <= set(range(1, c.CONTRACT_VERSION + 1))


def test_the_columns_of_the_store_are_told_apart() -> None:
    columns = [c.column(name) for one in c.attributes() for name in one.wire_names]
    assert len(columns) == len(set(columns))
