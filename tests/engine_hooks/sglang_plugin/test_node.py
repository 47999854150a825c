"""The node's configuration, and where it puts itself among its ranks."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from engine_hooks.recorder import Recorder
from engine_hooks.ring_format import RingError
from engine_hooks.sglang_plugin.boundary import SWITCH_OFF_AFTER
from engine_hooks.sglang_plugin.node import Node
from engine_hooks.sglang_plugin.place import Host
from tests.engine_hooks.sglang_plugin.support import NODE_BOOT, Rig
from tests.support import fake_sglang as fake


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, records=False)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(**parallel: int) -> None:
        for name, module in fake.modules("0.5.19", **parallel).items():
            monkeypatch.setitem(sys.modules, name, module)

    install()
    return install


def built(rig: Rig, role: str = "decode", host: Host = Host(), **given: Any) -> list[str]:  # noqa: B008 - frozen
    """Build the scheduler; the names of the emitters that were opened."""
    names: list[str] = []

    def open_recorder(name: str) -> Recorder:
        names.append(name)
        return Recorder(rig.ring)

    Node(rig.legs, open_recorder, host).after_init(None, fake.node(role, **given))
    return names


@pytest.mark.usefixtures("engine")
def test_the_configuration_is_the_first_fact(rig: Rig) -> None:
    built(rig)
    (fact,) = rig.facts
    values = {name.removeprefix("pagewitness."): value for name, value in fact.values.items()}
    assert values["node.id"] == NODE_BOOT
    assert (values["node.role"], values["rank"], values["ranks"]) == ("decode", 0, 1)
    assert (values["engine"], values["engine.version"], values["gen_ai.request.model"]) == (
        "sglang",
        "0.5.19",
        "lab-echo",
    )
    assert (values["context.tokens"], values["pool.tokens"], values["input.limit"], values["page.size"]) == (
        4096,
        2048,
        2042,
        16,
    )
    assert (values["kv.dtype"], values["kv.layers"], values["transfer.backend"]) == ("bfloat16", 32, "mooncake")
    assert (values["prefix_cache"], values["tier"]) == (False, "control")


@pytest.mark.usefixtures("engine")
def test_recording_starts_with_the_configuration(rig: Rig) -> None:
    built(rig)
    rig.admit(fake.Req())
    fact = rig.only("admission:admitted")
    assert (fact["input.limit"], fact["context.tokens"]) == (2042, 4096)


@pytest.mark.usefixtures("engine")
def test_an_engine_without_disaggregation_is_unified_and_has_no_backend(rig: Rig) -> None:
    built(rig, "null")
    values = rig.facts[0].values
    assert (values["pagewitness.node.role"], values["pagewitness.transfer.backend"]) == ("unified", "none")


@pytest.mark.usefixtures("engine")
def test_a_prefix_cache_is_said(rig: Rig) -> None:
    built(rig, "prefill")
    assert rig.facts[0].values["pagewitness.prefix_cache"] is True


@pytest.mark.usefixtures("engine")
def test_with_speculative_decoding_the_reads_count_as_unsupplied(rig: Rig) -> None:
    built(rig, speculative_algorithm="EAGLE")
    missing = rig.facts[0].values["pagewitness.hooks.missing"]
    assert isinstance(missing, tuple)
    assert {"page.read", "page.acquire", "page.step"} <= set(missing)


@pytest.mark.usefixtures("engine")
def test_a_model_without_a_served_name_goes_by_its_path(rig: Rig) -> None:
    built(rig, served_model_name=None)
    assert rig.facts[0].values["gen_ai.request.model"] == "models/echo"


@pytest.mark.parametrize(
    ("parallel", "arguments", "name", "rank", "ranks"),
    [
        ({}, {}, "decode-31001-tp0", 0, 1),
        ({"tp_rank": 1}, {"tp_size": 2}, "decode-31001-tp1", 1, 2),
        ({"tp_rank": 1, "pp_rank": 1}, {"tp_size": 2, "pp_size": 2}, "decode-31001-tp1-pp1", 3, 4),
        (
            {"tp_rank": 3, "attn_tp_size": 2},
            {"tp_size": 4, "dp_size": 2, "enable_dp_attention": True},
            "decode-31001-dp1-tp3", 1, 2,
        ),
        ({"dp_rank": 1}, {"dp_size": 2}, "decode-31001-dp1-tp0", 0, 1),
    ],
    ids=["alone", "tensor parallel", "pipeline", "data-parallel attention", "data parallel"],
)  # fmt: skip
def test_each_rank_is_an_emitter(
    rig: Rig, engine: Any, parallel: dict[str, int], arguments: dict[str, Any], name: str, rank: int, ranks: int
) -> None:
    engine(**parallel)
    assert built(rig, **arguments) == [name]
    values = rig.facts[0].values
    assert (values["pagewitness.rank"], values["pagewitness.ranks"]) == (rank, ranks)


@pytest.mark.parametrize("tp_rank", [0, 1])
def test_each_rank_names_the_emitters_of_all(rig: Rig, engine: Any, tp_rank: int) -> None:
    engine(tp_rank=tp_rank)
    built(rig, host=Host("host7"), tp_size=2)
    values = rig.facts[0].values
    assert values["pagewitness.rank.names"] == ("host7/decode-31001-tp0", "host7/decode-31001-tp1")
    assert (values["pagewitness.parallel.tp"], values["pagewitness.parallel.dp"]) == (2, 1)


@pytest.mark.usefixtures("engine")
def test_a_node_that_spans_hosts_names_no_ranks(rig: Rig) -> None:
    built(rig, host=Host("host7"), tp_size=2, nnodes=2)
    assert "pagewitness.rank.names" not in rig.facts[0].values


@pytest.mark.usefixtures("engine")
def test_the_region_is_what_the_operator_says(rig: Rig) -> None:
    built(rig, host=Host("host7", "eu-west-1"))
    assert rig.facts[0].values["cloud.region"] == "eu-west-1"


@pytest.mark.usefixtures("engine")
def test_without_a_region_there_is_none(rig: Rig) -> None:
    built(rig)
    assert "cloud.region" not in rig.facts[0].values


@pytest.mark.usefixtures("engine")
def test_legs_know_what_the_key_of_the_cache_is_made_of(rig: Rig) -> None:
    built(rig)
    assert rig.legs.limits.key_composition == b"tokens\ncache_salt\nextra_key\nlora"


def test_an_engine_whose_key_is_somewhere_else_records_all_the_same(
    rig: Rig, engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(sys.modules["sglang.srt.mem_cache.radix_cache"], "RadixKey")
    built(rig)
    assert rig.legs.limits.key_composition == b""
    assert "key of this engine's prefix cache" in caplog.text


def test_a_data_parallel_replica_is_a_node_of_its_own(rig: Rig, engine: Any) -> None:
    """It serves other requests: a rid and room that a client repeats must not make one leg of two."""
    engine(dp_rank=1)
    built(rig, dp_size=2)
    assert rig.facts[0].values["pagewitness.node.id"] != NODE_BOOT
    assert rig.legs.node_boot == rig.facts[0].values["pagewitness.node.id"]


@pytest.mark.usefixtures("engine")
def test_without_room_for_a_ring_the_node_says_why_and_stays_silent(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def no_room(name: str) -> Recorder:
        raise RingError("cannot make a ring; set PAGEWITNESS_RING_DIR")

    with caplog.at_level(logging.ERROR):
        Node(rig.legs, no_room).after_init(None, fake.node())
    assert "set PAGEWITNESS_RING_DIR" in caplog.text
    assert rig.legs.recorder is None


@pytest.mark.usefixtures("engine")
def test_a_hook_that_is_switched_off_is_a_change_of_the_configuration(rig: Rig) -> None:
    rig.parts.handlers["node"].after_init(None, fake.node())

    def fail() -> None:
        raise RuntimeError

    hook = rig.parts.boundary.guard("Scheduler.run_batch:after", fail)
    for _ in range(SWITCH_OFF_AFTER):
        hook()
    assert [fact.span.name for fact in rig.facts] == ["pagewitness.node.config"] * 2
