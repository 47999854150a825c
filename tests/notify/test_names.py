from __future__ import annotations

import os
from pathlib import Path

from engine_hooks.conventions import UNATTRIBUTED
from engine_hooks.identity import pseudonym
from notify.names import TenantNames
from tests.support.verdicts import KEYS

NEW, OLD = KEYS


def test_a_name_on_the_list_is_known_under_every_key(tmp_path: Path) -> None:
    path = tmp_path / "tenants.txt"
    path.write_text("# customers\nacme\n\nzenith\r\n", encoding="utf-8")
    names = TenantNames(path, KEYS)
    assert names.reference(NEW.id, pseudonym(NEW, "acme")).name == "acme"
    assert names.reference(OLD.id, pseudonym(OLD, "zenith")).name == "zenith"


def test_rotated_keys_are_one_tenant_where_the_name_is_known(tmp_path: Path) -> None:
    path = tmp_path / "tenants.txt"
    path.write_text("acme\n", encoding="utf-8")
    listed, unlisted = TenantNames(path, KEYS), TenantNames(None, KEYS)
    old, new = (OLD.id, pseudonym(OLD, "acme")), (NEW.id, pseudonym(NEW, "acme"))
    assert listed.identity(*old) == listed.identity(*new)
    assert unlisted.identity(*old) != unlisted.identity(*new)


def test_a_pseudonym_is_not_taken_for_one_of_another_key(tmp_path: Path) -> None:
    path = tmp_path / "tenants.txt"
    path.write_text("acme\n", encoding="utf-8")
    assert TenantNames(path, KEYS).reference(OLD.id, pseudonym(NEW, "acme")).name is None


def test_a_name_cannot_claim_what_nobody_vouched_for(tmp_path: Path) -> None:
    path = tmp_path / "tenants.txt"
    path.write_text(f"{UNATTRIBUTED}\n", encoding="utf-8")
    assert TenantNames(path, KEYS).reference("", UNATTRIBUTED).name is None


def test_a_changed_list_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tenants.txt"
    path.write_text("acme\n", encoding="utf-8")
    names = TenantNames(path, KEYS)
    assert names.reference(NEW.id, pseudonym(NEW, "orion")).name is None
    path.write_text("acme\norion\n", encoding="utf-8")
    os.utime(path, (1, 1))
    assert names.reference(NEW.id, pseudonym(NEW, "orion")).name == "orion"
