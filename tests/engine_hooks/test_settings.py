"""Settings are declared once; what is wrong is said all at once and never repeats a secret."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from engine_hooks.settings import SETTINGS, Settings, SettingsError, load

KEY = "ab" * 32


def test_the_defaults_can_be_used() -> None:
    settings = load({})

    assert settings.hooks
    assert settings.ring_dir.is_absolute()
    assert (settings.mac_keys, settings.evidence_key, settings.node_boot, settings.export_token_file) == (
        (),
        None,
        None,
        None,
    )


def test_every_setting_is_parsed_from_its_variable() -> None:
    settings = load(
        {
            "PAGEWITNESS_HOOKS": "off",
            "PAGEWITNESS_RING_DIR": "/run/rings",
            "PAGEWITNESS_RING_BYTES": "64MiB",
            "PAGEWITNESS_EMITTER": "gpu-7.rack2",
            "PAGEWITNESS_MAC_KEYS": f"m1:{KEY},m2:{KEY}",
            "PAGEWITNESS_PSEUDONYM_KEYS": f"p2:{KEY},p1:{KEY}",
            "PAGEWITNESS_EVIDENCE_KEY": f"e1:{KEY}",
            "PAGEWITNESS_NODE_BOOT": "0f" * 16,
            "PAGEWITNESS_EXPORT_URL": "https://witness.example",
            "PAGEWITNESS_EXPORT_TOKEN_FILE": "/etc/token",
            "PAGEWITNESS_SPOOL_DIR": "/var/spool/x",
            "PAGEWITNESS_SPOOL_BYTES": "2g",
            "PAGEWITNESS_HEARTBEAT_SECONDS": "0.5",
        }
    )

    assert not settings.hooks
    assert (settings.ring_dir, settings.ring_bytes, settings.emitter) == (Path("/run/rings"), 64 << 20, "gpu-7.rack2")
    assert [key.id for key in settings.mac_keys] == ["m1", "m2"]
    assert [key.id for key in settings.pseudonym_keys] == ["p2", "p1"]
    assert settings.evidence_key is not None
    assert settings.evidence_key.id == "e1"
    assert settings.node_boot == bytes.fromhex("0f" * 16)
    assert (settings.export_url, settings.export_token_file) == ("https://witness.example", Path("/etc/token"))
    assert (settings.spool_dir, settings.spool_bytes, settings.heartbeat_seconds) == (
        Path("/var/spool/x"),
        2 << 30,
        0.5,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAGEWITNESS_HOOKS", "yes"), ("PAGEWITNESS_RING_DIR", "relative/path"), ("PAGEWITNESS_RING_BYTES", "lots"),
        ("PAGEWITNESS_RING_BYTES", "1K"), ("PAGEWITNESS_RING_BYTES", "-5M"), ("PAGEWITNESS_EMITTER", "a/b"),
        ("PAGEWITNESS_MAC_KEYS", "nokey"), ("PAGEWITNESS_PSEUDONYM_KEYS", "p1:short"),
        ("PAGEWITNESS_EVIDENCE_KEY", f"a:{KEY},b:{KEY}"),
        ("PAGEWITNESS_NODE_BOOT", "xyz"), ("PAGEWITNESS_EXPORT_URL", "witness:4318"),
        ("PAGEWITNESS_SPOOL_BYTES", "1e9"), ("PAGEWITNESS_HEARTBEAT_SECONDS", "0"),
        ("PAGEWITNESS_HEARTBEAT_SECONDS", "nan"), ("PAGEWITNESS_HEARTBEAT_SECONDS", "often"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load({name: value})


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load({"PAGEWITNESS_HOOKS": "maybe", "PAGEWITNESS_RING_BYTES": "none"})

    assert len(caught.value.faults) == 2


def test_a_secret_is_never_repeated() -> None:
    secret = "feedface" * 8 + "x"
    with pytest.raises(SettingsError) as caught:
        load({"PAGEWITNESS_MAC_KEYS": f"m1:{secret}", "PAGEWITNESS_EVIDENCE_KEY": f"e1:{secret}"})

    assert "feedface" not in str(caught.value)


def test_parsed_keys_do_not_show_in_the_settings() -> None:
    assert KEY not in repr(load({"PAGEWITNESS_EVIDENCE_KEY": f"e1:{KEY}"})).replace("\\x", "")


def test_a_flag_wins_over_its_variable() -> None:
    assert load({"PAGEWITNESS_RING_DIR": "/a"}, ring_dir="/b").ring_dir == Path("/b")
    assert load({"PAGEWITNESS_RING_DIR": "/a"}, ring_dir=None).ring_dir == Path("/a")


def test_a_fault_on_the_agents_side_does_not_stop_the_hooks() -> None:
    environ = {"PAGEWITNESS_EXPORT_URL": "nonsense", "PAGEWITNESS_EMITTER": "host7"}

    assert load(environ, scope="hooks").emitter == "host7"
    with pytest.raises(SettingsError):
        load(environ, scope="agent")


def test_a_fault_on_the_hooks_side_does_not_stop_the_agent() -> None:
    assert load({"PAGEWITNESS_MAC_KEYS": "nonsense"}, scope="agent").mac_keys == ()


def test_a_gateway_reads_its_keys_and_nothing_of_the_other_sides() -> None:
    keys = {f"PAGEWITNESS_{name}": f"k1:{KEY}" for name in ("PSEUDONYM_KEYS", "MAC_KEYS", "EVIDENCE_KEY")}
    found = load({**keys, "PAGEWITNESS_TIER": "nonsense", "PAGEWITNESS_EXPORT_URL": "nonsense"}, scope="gateway")

    assert [key.id for key in (*found.pseudonym_keys, *found.mac_keys)] == ["k1", "k1"]
    assert found.evidence_key is not None


@pytest.mark.parametrize("scope", ["hooks", "agent"])
def test_a_pseudonym_key_is_never_read_on_an_engine_node(scope: str) -> None:
    assert load({"PAGEWITNESS_PSEUDONYM_KEYS": f"p1:{KEY}"}, scope=scope).pseudonym_keys == ()


def test_an_empty_variable_is_as_one_that_is_not_set() -> None:
    assert load({"PAGEWITNESS_RING_BYTES": " "}) == load({})


def test_every_field_has_one_setting_with_a_sentence() -> None:
    assert [setting.field for setting in SETTINGS] == [field.name for field in fields(Settings)]
    for setting in SETTINGS:
        assert setting.name == f"PAGEWITNESS_{setting.name.removeprefix('PAGEWITNESS_')}"
        assert setting.help.endswith(".")
        assert setting.scope in ("hooks", "agent", "both", "gateway")
