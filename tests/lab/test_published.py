"""What a capture holds of truth and traffic: keyed digests and tenants, never a request id or a word."""

from __future__ import annotations

import pytest

from lab.engine.digests import rid_digest
from lab.engine.errors import LabError
from lab.engine.published import published_traffic, published_truth
from lab.engine.traffic import Outcome
from lab.engine.truth import join
from tests.lab.truth_lines import UNTOUCHED, Script


def outcome(rid: str, tenant: str) -> Outcome:
    return Outcome(rid, tenant, False, 200, 200, "length", 5, 5, {"acme": 2})


def leak() -> Script:
    script = Script().prefill_writes("aa", ["a0", "a1", "a2"]).prefill_writes("bb", ["b0"])
    return script.reserves("bb", {4: UNTOUCHED, 5: "a1", 6: "a2"}).reads("bb", {4: "b0", 5: "a1", 6: "a2"})


OUTCOMES = [outcome("aa", "acme"), outcome("bb", "zenith")]


def test_only_foreign_ranges_are_listed() -> None:
    (response,) = published_truth(join(leak().records()), OUTCOMES)["responses"]
    assert response["reads"] == [
        {
            "page": 1,
            "slot_start": 1,
            "slot_end": 3,
            "token_start": 1,
            "owner_rid": rid_digest("aa"),
            "owner_tenant": "acme",
            "via": "stale_page",
        }
    ]


def test_every_request_is_listed_with_its_tenant() -> None:
    truth = published_truth(join(leak().records()), OUTCOMES)
    assert truth["requests"] == [
        {"rid": rid_digest("aa"), "tenant": "acme"},
        {"rid": rid_digest("bb"), "tenant": "zenith"},
    ]


def test_traffic_carries_digests_and_counts() -> None:
    (first, _) = published_traffic(OUTCOMES)["requests"]
    assert (first["rid"], first["tenant"], first["foreign_markers"]) == (rid_digest("aa"), "acme", {"acme": 2})


def test_a_slot_without_one_owner_is_no_truth() -> None:
    script = leak().prefill_writes("cc", ["c0"]).reads("cc", {8: "b0"})
    with pytest.raises(LabError, match="1 slots that were read have no one owner:\n  cc position 0"):
        published_truth(join(script.records()), OUTCOMES)


def test_a_slot_that_nothing_ever_wrote_is_listed_without_an_owner() -> None:
    script = Script().reserves("aa", {4: UNTOUCHED}).reads("aa", {4: UNTOUCHED})
    (response,) = published_truth(join(script.records()), OUTCOMES)["responses"]
    (read,) = response["reads"]
    assert (read["owner_rid"], read["owner_tenant"], read["via"]) == ("", "", "never_written")


def test_what_was_shared_on_purpose_is_listed_apart() -> None:
    script = Script().prefill_writes("aa", ["t0"]).prefill_reuses("bb", {0: "t0"})
    script.reserves("bb", {4: UNTOUCHED}).reads("bb", {4: "t0"})
    (response,) = published_truth(join(script.records()), OUTCOMES)["responses"]
    assert response["reads"] == []
    assert [(part["owner_tenant"], part["via"]) for part in response["shared"]] == [("acme", "shared")]


def test_a_request_that_nobody_sent_is_no_truth() -> None:
    with pytest.raises(LabError, match="requests that the script did not send: aa"):
        published_truth(join(leak().records()), OUTCOMES[1:])
