"""What a leg reuses of a prefix cache, and what it leaves there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake


@pytest.fixture
def exact(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path, role="prefill", tier="exact")
    rig.cache = fake.Cache(shares=True)
    return rig


def published(rig: Rig) -> list[int]:
    return [fact["shared.tokens"] for fact in rig.every("share:publish")]


# ---------------------------------------------------------------------- match


def test_a_prefix_that_prefill_has_is_a_match(prefill: Rig) -> None:
    prefill.legs.limits.key_composition = b"tokens\ncache_salt"
    req = prefill.admit(fake.Req(cache_salt="a salt"))
    prefill.extend(req, 8, 10)
    match = prefill.only("share:match")
    assert (match["shared.tokens"], match["storage"]) == (8, "device")
    assert match["key.composition"] == ("tokens", "cache_salt")
    assert match["namespace"] == prefill.only("admission:admitted")["namespace"]


def test_a_prompt_that_is_computed_from_its_start_matches_nothing(prefill: Rig) -> None:
    prefill.extend(prefill.admit(fake.Req()), 0, 10)
    assert prefill.story() == ["admission:admitted"]


def test_the_next_chunk_of_a_prompt_is_no_match(prefill: Rig) -> None:
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 8)
    prefill.extend(req, 8, 10)
    assert prefill.story() == ["admission:admitted"]


def test_a_prefix_that_decode_has_is_a_match(decode: Rig) -> None:
    decode.reserve(decode.admit(fake.Req()), 11, 12, prefix=4)
    assert decode.story() == ["admission:admitted", "transfer:reserved", "share:match"]
    assert decode.only("share:match")["shared.tokens"] == 4


def test_a_step_on_decode_that_starts_late_is_no_match(decode: Rig) -> None:
    """Speculative decoding verifies with an extend."""
    decode.extend(decode.admit(fake.Req()), 8, 10)
    assert "share:match" not in decode.story()


# ---------------------------------------------------------------------- namespaces


def test_namespaces_differ_as_the_keys_of_the_cache_do(prefill: Rig) -> None:
    requests = [
        fake.Req("a", cache_salt="s"), fake.Req("b", extra_key="s"), fake.Req("c", cache_salt="s", extra_key="s"),
        fake.Req("d", cache_salt="t"), fake.Req("e", cache_salt="s"),
    ]  # fmt: skip
    for req in requests:
        prefill.admit(req)
    spaces = [fact["namespace"] for fact in prefill.every("admission:admitted")]
    assert spaces[0] == spaces[4]
    assert len(set(spaces)) == 4


def test_a_request_without_salt_and_extra_key_is_in_no_namespace(prefill: Rig) -> None:
    prefill.admit(fake.Req())
    assert "namespace" not in prefill.only("admission:admitted")


def test_without_a_prefix_cache_there_is_no_namespace(prefill: Rig) -> None:
    prefill.legs.limits.prefix_cache = False
    prefill.admit(fake.Req(cache_salt="a salt"))
    assert "namespace" not in prefill.only("admission:admitted")


def test_what_is_no_text_does_not_get_in_the_way(prefill: Rig) -> None:
    prefill.admit(fake.Req(extra_key=["a", "list"]))
    assert "namespace" in prefill.only("admission:admitted")


# ---------------------------------------------------------------------- publish


def test_exact_a_running_request_publishes_whole_pages(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    exact.extend(req, 0, 10)
    exact.parts.handlers["release"].before_publish(req, exact.cache)
    assert published(exact) == [8]


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({}, [8]),
        ({"is_insert": True}, [8]),
        ({"is_insert": False}, []),
        ({"checkpoint": True}, [8]),
        ({"checkpoint": False}, []),
    ],
    ids=str,
)
def test_exact_a_release_publishes_where_the_cache_may_keep_the_pages(
    exact: Rig, given: dict[str, bool], tokens: list[int]
) -> None:
    req = exact.admit(fake.Req())
    exact.extend(req, 0, 10)
    exact.parts.handlers["release"].before_release(req, exact.cache, **given)
    assert published(exact) == tokens
    assert exact.story()[-1] == "release:immediate", "what a leg publishes comes before it gives its pages up"


def test_exact_the_positional_form_of_the_same(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    exact.extend(req, 0, 10)
    exact.parts.handlers["release"].before_release(req, exact.cache, False)
    assert published(exact) == []


def test_exact_a_request_that_is_barred_from_the_cache_publishes_nothing(exact: Rig) -> None:
    req = exact.admit(fake.Req())
    req.skip_radix_cache_insert = True  # type: ignore[attr-defined]
    exact.extend(req, 0, 10)
    exact.release(req)
    assert published(exact) == []


def test_exact_less_than_a_page_is_nothing(exact: Rig) -> None:
    req = exact.admit(fake.Req(origin_input_ids=[7] * 3))
    exact.extend(req, 0, 3)
    exact.release(req)
    assert published(exact) == []


def test_control_what_is_published_follows_from_the_release(prefill: Rig) -> None:
    prefill.cache = fake.Cache(shares=True)
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 10)
    prefill.finish(req)
    assert prefill.story() == ["admission:admitted", "release:immediate", "response:length", "end:finished"]
