"""KV that goes to host memory and comes back.

HiCache needs a GPU: its shapes are those of the engine's source. The backup of a retracted request is also seen on the
real engine, by the tests marked `engine`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine_hooks.sglang_plugin.support import Rig
from tests.support import fake_sglang as fake


def load_back(rig: Rig, req: Any, result: Any) -> None:
    rig.host_tier.after_load_back(result, None, SimpleNamespace(req=req, host_hit_length=8))


def prefilling(rig: Rig, prefix: int = 4) -> fake.Req:
    req = rig.admit(fake.Req())
    req.prefix_indices = [0] * prefix  # type: ignore[attr-defined]
    return req


# ---------------------------------------------------------------------- a cache in host memory


@pytest.mark.parametrize("result", [(8, 17), (fake.Tensor([0] * 8, "cuda"), 17)], ids=["number", "slots"])
def test_a_load_says_how_much_and_where(prefill: Rig, result: Any) -> None:
    load_back(prefill, prefilling(prefill), result)
    assert prefill.story() == ["admission:admitted", "share:load", "write:load"]
    load = prefill.only("share:load")
    assert (load["shared.tokens"], load["storage"]) == (8, "host")
    written = prefill.only("write:load")
    assert (written["written.start"], written["written.end"]) == (4, 12)


def test_the_newer_engine_counts_its_prefix_in_a_number(prefill: Rig) -> None:
    req = prefilling(prefill)
    req.prefix_len = 0  # type: ignore[attr-defined]
    load_back(prefill, req, (8, 17))
    assert prefill.only("write:load")["written.start"] == 0


@pytest.mark.parametrize("result", [None, (0, 17), (fake.Tensor([], "cuda"), 17)], ids=["none", "number", "slots"])
def test_nothing_that_was_loaded_is_no_fact(prefill: Rig, result: Any) -> None:
    load_back(prefill, prefilling(prefill), result)
    assert prefill.story() == ["admission:admitted"]


def test_a_load_for_no_request_is_no_fact(prefill: Rig) -> None:
    load_back(prefill, None, (8, 17))
    assert prefill.facts == []


def test_on_decode_the_load_is_the_end_of_the_promised_prefix(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.reserve(req, 12, prefix=8)
    load_back(decode, req, (4, 17))
    written = decode.only("write:load")
    assert (written["written.start"], written["written.end"]) == (4, 8)


def test_what_is_written_through_while_a_leg_publishes_is_its_own(prefill: Rig) -> None:
    prefill.cache = fake.Cache(shares=True)
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 10)
    prefill.parts.handlers["release"].before_publish(req, prefill.cache)
    prefill.host_tier.after_write_through(8, None, "a node")
    assert prefill.only("share:store")["shared.tokens"] == 8
    assert prefill.story(req)[-1] == "share:store"


@pytest.mark.parametrize("written_back", [True, False])
def test_what_makes_room_for_somebody_else_belongs_to_no_leg(prefill: Rig, written_back: bool) -> None:
    prefill.cache = fake.Cache(shares=True)
    req = prefill.admit(fake.Req())
    prefill.extend(req, 0, 10)
    prefill.parts.handlers["release"].before_publish(req, prefill.cache)
    if not written_back:
        prefill.finish(req)
    prefill.host_tier.after_write_through(8, None, "a node", write_back=written_back)
    assert "share:store" not in prefill.story()


# ---------------------------------------------------------------------- the backup of a retracted request


def retracted(rig: Rig) -> fake.Req:
    req = rig.admit(fake.Req())
    rig.reserve(req, 10, 11, 12)
    rig.commit(req)
    rig.step(req)
    release = rig.parts.handlers["release"]
    release.before_retract(req=req)
    rig.host_tier.after_offload(None, req)
    rig.release(req)
    release.before_reset(req)
    return req


def test_a_retracted_request_leaves_its_kv_to_itself_alone(decode: Rig) -> None:
    retracted(decode)
    assert decode.story()[-3:] == ["share:store", "release:retract", "end:retracted"]
    store = decode.only("share:store")
    assert (store["shared.tokens"], store["key.composition"]) == (11, ("request",))


def test_it_comes_back_as_another_leg_that_names_the_first(decode: Rig) -> None:
    req = retracted(decode)
    first = decode.leg(req)[0].leg
    decode.admit(req, is_retracted=True)
    decode.host_tier.after_reload(None, req)
    assert decode.every("admission:admitted")[1]["leg.resumes"] == (first and first.uid)
    written = decode.only("write:load")
    assert (written["written.start"], written["written.end"]) == (0, 11)
    assert decode.only("share:load")["key.composition"] == ("request",)


def test_a_leg_that_resumes_nothing_says_so(decode: Rig) -> None:
    decode.admit(fake.Req())
    assert "leg.resumes" not in decode.only("admission:admitted")


def test_a_backup_in_the_host_pool_for_which_there_is_no_room_is_none(decode: Rig) -> None:
    req = decode.admit(fake.Req())
    decode.host_tier.after_backup(None, None, req)
    assert "share:store" not in decode.story()
    decode.host_tier.after_backup(SimpleNamespace(host_indices=[]), None, req)
    decode.host_tier.after_restore(None, None, req)
    assert decode.story()[1:] == ["share:store", "share:load", "write:load"]
