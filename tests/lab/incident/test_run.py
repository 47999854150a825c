"""From the first request to the answer, on two small fleets: exactly what is true is named, in passes or at once, and
with telemetry lost nothing false is, and what is missing is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.incident.held import Result
from tests.lab.incident.losses import hold_with_losses, losing, unknown_in
from tests.support.incidents import CUSTOMERS, INTERNAL, RESEARCHER, run_small
from tests.support.stores import fresh_store


def wrong(result: Result) -> list[Result]:
    """The same result with one thing wrong in it, in each way."""
    answer, truth = result.answer, result.truth
    (first, *_rest) = [row for row in answer.responses if not row.derived]
    fewer = answer.model_copy(update={"responses": [row for row in answer.responses if row != first]})
    nobodys = answer.model_copy(
        update={"responses": [*answer.responses, first.model_copy(update={"response_id": "0" * 32})]}
    )
    neighbours = first.model_copy(update={"model": "another"})
    everybodys = result.everybodys.model_copy(update={"responses": [*result.everybodys.responses, neighbours]})
    tenant = next(iter(truth.of_customers))
    split = replace(truth, of_customers={**truth.of_customers, tenant: truth.of_customers[tenant] + 1})
    unlabelled = replace(truth, by_label={**truth.by_label, "researcher": frozenset()})
    return [
        replace(result, answer=fewer),
        replace(result, answer=nobodys),
        replace(result, everybodys=everybodys),
        replace(result, truth=split),
        replace(result, truth=unlabelled),
        replace(result, min_input_tokens=result.spec.prefill_pages * result.spec.page_size),
    ]


def test_exactly_the_truth_is_named() -> None:
    with fresh_store() as store:
        result = run_small(store)
    assert result.right
    figures = result.figures()
    assert (figures["affected"], figures["truth"], figures["false"], figures["missed"]) == (CUSTOMERS, CUSTOMERS, 0, 0)
    assert figures["excluded"] == {"internal": INTERNAL, "researcher": RESEARCHER}
    # one reused a page that an affected response had published with words of its own tenant: the same, or others
    assert (figures["unknown"], figures["requests"]) == (1, 160)
    assert not any(one.right for one in wrong(result))


@pytest.mark.timeout(300)  # two runs, and a pass of detection for each part
@pytest.mark.slow
def test_it_is_the_same_judged_bit_by_bit() -> None:
    """Seed 3 has derived responses too: they are counted apart."""
    said: list[str] = []
    results = []
    for judge_every in (40, 10_000):
        with fresh_store() as store:
            results.append(run_small(store, 3, judge_every=judge_every, say=said.append))
    bit_by_bit, at_once = results
    assert sum("judging what was posted before" in line for line in said) > 2
    assert bit_by_bit.right
    assert at_once.right
    assert at_once.answer.derived > 0
    split = [[(row.tenant.pseudonym, row.affected, row.derived) for row in one.answer.by_tenant] for one in results]
    assert split[0] == split[1]
    assert bit_by_bit.answer.derived == at_once.answer.derived


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_lost_telemetry_makes_nothing_false_and_what_is_missed_unknown(seed: int) -> None:
    kept: list[bytes] = []
    with fresh_store() as store:
        result = run_small(store, keep=losing(seed, 0.1, kept))
        unknown = unknown_in(store)
    hold_with_losses(result, unknown, kept)
