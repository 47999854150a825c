"""What a scheduler is beyond what every leg needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine_hooks.sglang_plugin.described import canary_mode, describe
from tests.support import fake_sglang as fake


class MHATokenToKVPool(SimpleNamespace):
    pass


class DecodeTransferQueue(SimpleNamespace):
    """Has the engine's room check, as far as its code shows."""

    def _commit_transfer_to_req(self) -> str:
        return "Metadata corruption detected - bootstrap_room mismatch"


class UncheckedQueue(SimpleNamespace):
    def _commit_transfer_to_req(self) -> str:
        return "committed"


def scheduler(pool: dict[str, Any] | None = None, arguments: dict[str, Any] | None = None, **given: Any) -> Any:
    known = MHATokenToKVPool(layer_num=32, head_num=8, head_dim=128, page_size=16, **(pool or {}))
    values: dict[str, Any] = {
        "server_args": SimpleNamespace(**(arguments or {})),
        "token_to_kv_pool_allocator": SimpleNamespace(get_kvcache=lambda: known),
        "req_to_token_pool": SimpleNamespace(),
        "tree_cache": SimpleNamespace(),
    }
    return SimpleNamespace(**(values | given))


def test_the_layout_is_the_pools_class_and_its_sizes() -> None:
    layout = describe(scheduler())["kv_layout"]
    assert layout == "MHATokenToKVPool layer_num=32 head_num=8 head_dim=128 page_size=16"


def test_a_plain_unified_node() -> None:
    described = describe(scheduler())
    assert described["components"] == ["kv"]
    assert (described["host_tokens"], described["slots"], described["safety"]) == (0, None, [])
    assert described["model_revision"] == ""


@pytest.mark.parametrize(
    ("given", "component"),
    [
        ({"pool": {"index_k_with_scale_buffer": object()}}, "index_k"),
        ({"draft_worker": object()}, "draft"),
        ({"pool": {"swa_kv_pool": object()}}, "swa"),
        ({"req_to_token_pool": SimpleNamespace(mamba_pool=object())}, "state"),
        ({"disagg_metadata_buffers": fake.MetadataBuffers()}, "aux"),
        (
            {"disagg_decode_prealloc_queue": SimpleNamespace(kv_manager=SimpleNamespace(enable_staging=True))},
            "staging",
        ),
    ],
)
def test_components(given: dict[str, Any], component: str) -> None:
    assert describe(scheduler(**given))["components"] == ["kv", component]


def test_a_host_tier_has_a_size_and_is_a_component() -> None:
    controller = SimpleNamespace(mem_pool_host=SimpleNamespace(size=8192))
    described = describe(scheduler(tree_cache=SimpleNamespace(cache_controller=controller)))
    assert described["host_tokens"] == 8192
    assert described["components"] == ["kv", "host"]


def test_slots_and_revision() -> None:
    described = describe(scheduler(arguments={"revision": "main"}, disagg_metadata_buffers=fake.MetadataBuffers()))
    assert (described["slots"], described["model_revision"]) == (4, "main")


def test_protections_that_are_on() -> None:
    buffers = fake.MetadataBuffers()
    buffers.kv_checksum = object()  # type: ignore[attr-defined]
    queue = DecodeTransferQueue(enable_deferred_kv_release=True, deferred_kv_release_timeout=30.0)
    described = describe(
        scheduler(arguments={"kv_canary": "log"}, disagg_metadata_buffers=buffers, disagg_decode_transfer_queue=queue)
    )
    assert described["safety"] == ["room_check", "deferred_release=30", "kv_canary=log", "kv_checksum"]


def test_a_protection_is_claimed_only_where_the_engines_code_has_it() -> None:
    queue = UncheckedQueue(enable_deferred_kv_release=False)
    assert describe(scheduler(disagg_decode_transfer_queue=queue))["safety"] == []


def test_what_cannot_be_read_is_left_out_and_the_rest_is_there(caplog: pytest.LogCaptureFixture) -> None:
    described = describe(scheduler(disagg_metadata_buffers=SimpleNamespace(bootstrap_room=None)))
    assert "slots" not in described
    assert described["kv_layout"]
    assert "slots of this engine cannot be read" in caplog.text


@pytest.mark.parametrize(("given", "mode"), [({}, "none"), ({"kv_canary": "raise"}, "raise")])
def test_the_canarys_mode(given: dict[str, Any], mode: str) -> None:
    assert canary_mode(scheduler(arguments=given)) == mode
