"""Keys change while requests run: docs/tenant-identity.md gives the order, and in it no request is nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_hooks.identity import Identity, Key, parse_keys, pseudonym, verify_salt
from notify.names import TenantNames
from notify.scope import TenantScope
from tests.engine_hooks.gateways import Gateway, settings

OLD_MAC, NEW_MAC = f"m1:{'11' * 32}", f"m2:{'22' * 32}"
OLD_NAME, NEW_NAME = f"p1:{'33' * 32}", f"p2:{'44' * 32}"


def seen(rings: Path, mac: str, engine: str, names: str = OLD_NAME) -> Identity | None:
    """Whose an engine with these MAC keys takes a request to be that came through a gateway with those keys."""
    gateway = Gateway(rings, known=settings(rings, MAC_KEYS=mac, PSEUDONYM_KEYS=names))
    gateway.post(json={"text": "x"})
    return verify_salt(gateway.engine.fields["cache_salt"], parse_keys(engine))


@pytest.mark.parametrize(
    ("gateway", "engine"),
    [
        (OLD_MAC, OLD_MAC),
        (OLD_MAC, f"{NEW_MAC},{OLD_MAC}"),  # 1. engines take both
        (f"{NEW_MAC},{OLD_MAC}", f"{NEW_MAC},{OLD_MAC}"),  # 2. gateways sign with the new one
        (f"{NEW_MAC},{OLD_MAC}", NEW_MAC),  # 3. the old one goes
        (NEW_MAC, NEW_MAC),
    ],
)
def test_at_each_step_of_a_mac_keys_rotation_the_engine_knows_the_tenant(
    tmp_path: Path, gateway: str, engine: str
) -> None:
    found = seen(tmp_path, gateway, engine)
    assert found is not None
    assert found.tenant.hex() == pseudonym(parse_keys(OLD_NAME)[0], "acme")


def test_the_order_of_the_keys_means_nothing_to_an_engine(tmp_path: Path) -> None:
    assert seen(tmp_path, NEW_MAC, f"{OLD_MAC},{NEW_MAC}") == seen(tmp_path, NEW_MAC, f"{NEW_MAC},{OLD_MAC}")


def test_a_gateway_that_signs_with_a_key_that_no_engine_has_yet_makes_requests_nobodys(tmp_path: Path) -> None:
    assert seen(tmp_path, f"{NEW_MAC},{OLD_MAC}", OLD_MAC) is None


def test_an_old_salt_holds_until_the_old_key_is_taken_away(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, known=settings(tmp_path, MAC_KEYS=OLD_MAC))
    gateway.post(json={"text": "x"})
    salt = gateway.engine.fields["cache_salt"]
    assert verify_salt(salt, parse_keys(f"{NEW_MAC},{OLD_MAC}"))
    assert verify_salt(salt, parse_keys(NEW_MAC)) is None


def test_a_new_pseudonym_key_names_itself_and_needs_nothing_of_the_engines(tmp_path: Path) -> None:
    before, after = (seen(tmp_path, OLD_MAC, OLD_MAC, names) for names in (OLD_NAME, f"{NEW_NAME},{OLD_NAME}"))
    assert before is not None
    assert after is not None
    assert (before.key_id, after.key_id) == ("p1", "p2")
    assert before.tenant != after.tenant


def test_a_tenant_is_found_by_name_on_both_sides_of_a_rotation(tmp_path: Path) -> None:
    known: tuple[Key, ...] = parse_keys(f"{NEW_NAME},{OLD_NAME}")
    identities = [seen(tmp_path, OLD_MAC, OLD_MAC, names) for names in (OLD_NAME, NEW_NAME)]
    recorded = [(found.key_id, found.tenant.hex()) for found in identities if found]
    assert len(recorded) == 2
    assert set(recorded) == set(TenantScope.of("acme", known).pseudonyms)

    listed = tmp_path / "tenants.txt"
    listed.write_text("acme\n", encoding="utf-8")
    names = TenantNames(listed, known)
    assert {names.identity(*pair) for pair in recorded} == {("name", "acme")}
