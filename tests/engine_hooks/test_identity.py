"""Pseudonyms, salts that vouch for them, and digests that tell nobody what they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine_hooks.conventions import TRAFFIC
from engine_hooks.identity import (
    EvidenceKey,
    Identity,
    Key,
    KeyFormatError,
    Salts,
    mint_salt,
    parse_keys,
    pseudonym,
    verify_salt,
)

PSEUDONYMS = Key("p1", b"p" * 32)
OTHER_PSEUDONYMS = Key("p2", b"q" * 32)
MAC = Key("m1", b"m" * 32)
OTHER_MAC = Key("m2", b"n" * 32)
NODE = bytes(range(16))

HOSTILE = [
    "acme", "a.b.c", "1.p1.0.customer.0", "line\nbreak", "tab\t", "nul\0", "ünïcode ☃ 名前", "\u202eright to left",
    "\ud800 lone surrogate", "e\u0301", "é", " ", "x" * 10_000, "'; DROP TABLE evidence; --",
]  # fmt: skip


def salt(name: str = "acme", **changed: object) -> str:
    keys = {"pseudonym_key": PSEUDONYMS, "mac_key": MAC, "traffic": "customer"} | changed
    return mint_salt(name, **keys)  # type: ignore[arg-type]


# ------------------------------------------------------------------ salts


@pytest.mark.parametrize("name", HOSTILE)
def test_a_minted_salt_says_whose_it_is(name: str) -> None:
    assert verify_salt(salt(name), [MAC]) == Identity(bytes.fromhex(pseudonym(PSEUDONYMS, name)), "p1", "customer")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_salt_is_five_plain_parts_whatever_the_name(name: str) -> None:
    text = salt(name)

    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 120
    assert text.split(".")[:4] == ["1", "p1", pseudonym(PSEUDONYMS, name), "customer"]


def test_no_two_names_share_a_pseudonym() -> None:
    assert len({pseudonym(PSEUDONYMS, name) for name in HOSTILE}) == len(HOSTILE)


@given(st.text(min_size=1))
def test_a_pseudonym_is_stable_and_hides_its_name(name: str) -> None:
    text = pseudonym(PSEUDONYMS, name)

    assert text == pseudonym(PSEUDONYMS, name) != pseudonym(OTHER_PSEUDONYMS, name)
    assert len(text) == 32
    assert name not in text or len(name) < 3


@pytest.mark.parametrize("traffic", TRAFFIC.choices)
def test_the_traffic_label_is_vouched_for(traffic: str) -> None:
    text = salt(traffic=traffic)
    found = verify_salt(text, [MAC])
    assert found is not None
    assert found.traffic == traffic

    other = next(label for label in TRAFFIC.choices if label != traffic)
    assert verify_salt(text.replace(traffic, other), [MAC]) is None


@given(st.integers(0, len(salt()) - 1), st.characters())
def test_a_salt_with_one_character_changed_is_nobodys(place: int, character: str) -> None:
    good = salt()
    forged = good[:place] + character + good[place + 1 :]

    assert (verify_salt(forged, [MAC]) is None) == (forged != good)


@given(st.integers(0, len(salt()) - 1))
def test_a_cut_salt_is_nobodys(length: int) -> None:
    assert verify_salt(salt()[:length], [MAC]) is None


@pytest.mark.parametrize("addition", [" ", "\n", ".", "0", "\0", ".extra"])
def test_a_longer_salt_is_nobodys(addition: str) -> None:
    assert verify_salt(salt() + addition, [MAC]) is None
    assert verify_salt(addition + salt(), [MAC]) is None


def test_a_salt_under_another_key_is_nobodys() -> None:
    assert verify_salt(salt(), [OTHER_MAC]) is None
    assert verify_salt(salt(), []) is None


def test_the_pseudonym_key_vouches_for_nothing() -> None:
    assert verify_salt(salt(mac_key=PSEUDONYMS), [MAC]) is None


def test_a_part_of_one_salt_does_not_fit_another() -> None:
    acme, zenith = salt("acme").split("."), salt("zenith").split(".")
    acme[2] = zenith[2]

    assert verify_salt(".".join(acme), [MAC]) is None


def test_an_upper_case_salt_is_nobodys() -> None:
    assert verify_salt(salt().upper(), [MAC]) is None


def test_a_mac_key_rotates_by_listing_both() -> None:
    old, new = salt(mac_key=MAC), salt(mac_key=OTHER_MAC)

    assert verify_salt(old, [OTHER_MAC, MAC]) == verify_salt(new, [OTHER_MAC, MAC])
    assert verify_salt(old, [OTHER_MAC]) is None


def test_a_rotated_pseudonym_key_is_named() -> None:
    found = verify_salt(salt(pseudonym_key=OTHER_PSEUDONYMS), [MAC])

    assert found is not None
    assert found.key_id == "p2"


@given(
    st.one_of(
        st.none(), st.integers(), st.binary(), st.text(), st.lists(st.text()), st.floats(),
        st.from_regex(r"1\.[a-z0-9-]{1,8}\.[0-9a-f]{32}\.[a-z]{1,16}\.[0-9a-f]{32}", fullmatch=True),
    )
)  # fmt: skip
@example("1." * 100_000)
@example("1.p1." + "0" * 32 + ".customer." + "0" * 32)
def test_whatever_a_client_sends_is_nobodys_and_never_raises(sent: object) -> None:
    assert verify_salt(sent, [MAC, OTHER_MAC]) is None


def test_an_empty_name_and_an_unknown_label_are_refused() -> None:
    with pytest.raises(ValueError, match="tenant name is empty"):
        salt("")
    with pytest.raises(ValueError, match="visitor"):
        salt(traffic="visitor")


# ------------------------------------------------------------------ keys


def test_keys_are_parsed_in_order() -> None:
    assert parse_keys(f"a:{'11' * 32}, b-2:{'22' * 16}") == (Key("a", b"\x11" * 32), Key("b-2", b"\x22" * 16))
    assert parse_keys("") == parse_keys("  ") == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ff" * 32, "no ':'"),
        (f"UPPER:{'11' * 32}", "key id"),
        (f"nine-long:{'11' * 32}", "key id"),
        (f":{'11' * 32}", "key id"),
        ("a:xyz", "hexadecimal"),
        ("a:1", "hexadecimal"),
        ("a:", "0 bytes"),
        (f"a:{'11' * 15}", "15 bytes"),
        (f"a:{'11' * 65}", "65 bytes"),
        (f"a:{'11' * 32},a:{'22' * 32}", "twice"),
        (f"a:{'11' * 32},,b:{'22' * 32}", "key 2 is empty"),
    ],
)
def test_a_bad_key_is_refused_and_its_secret_not_repeated(text: str, fault: str) -> None:
    with pytest.raises(KeyFormatError, match=fault) as caught:
        parse_keys(text)
    assert "1111" not in str(caught.value)


def test_a_key_does_not_print_its_secret() -> None:
    assert MAC.secret.hex() not in repr(MAC)
    assert str(MAC.secret) not in repr(MAC)


# ------------------------------------------------------------------ digests


EVIDENCE = EvidenceKey(Key("e1", b"e" * 32))
OTHER_EVIDENCE = EvidenceKey(Key("e2", b"f" * 32))


@given(st.text())
def test_a_request_id_is_stable_under_one_key_and_another_under_another(rid: str) -> None:
    assert EVIDENCE.rid(rid) == EVIDENCE.rid(rid) != OTHER_EVIDENCE.rid(rid)
    assert len(EVIDENCE.rid(rid)) == 16


@given(st.one_of(st.integers(), st.text()))
def test_a_room_is_a_positive_63_bit_number(room: int | str) -> None:
    assert 0 < EVIDENCE.room(room) < 2**63


def test_a_room_is_one_whether_number_or_text_and_no_room_is_zero() -> None:
    assert EVIDENCE.room(5) == EVIDENCE.room("5") != EVIDENCE.room(6)
    assert EVIDENCE.room(None) == 0


def test_the_order_of_pages_counts() -> None:
    assert EVIDENCE.pages(b"\1\0\0\0\2\0\0\0") != EVIDENCE.pages(b"\2\0\0\0\1\0\0\0")
    assert EVIDENCE.pages(memoryview(b"\1\0\0\0")) == EVIDENCE.pages(b"\1\0\0\0")


def test_equal_inputs_of_two_kinds_have_different_digests() -> None:
    assert EVIDENCE.rid("x") != EVIDENCE.pages(b"x")


@pytest.mark.parametrize("parts", [(), (None, None), ("", None)], ids=str)
def test_what_says_nothing_is_no_namespace(parts: tuple[str | None, ...]) -> None:
    assert EVIDENCE.namespace(*parts) is None


def test_a_namespace_depends_on_which_part_says_what() -> None:
    key = EVIDENCE
    spaces = [key.namespace(*parts) for parts in [("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("ab", None)]]
    assert len(set(spaces)) == 4
    assert spaces[2] == spaces[4], "nothing and the empty text are one"


def test_a_namespace_is_keyed() -> None:
    assert EVIDENCE.namespace("a") != EvidenceKey(Key("other", bytes(32))).namespace("a")


def test_ranks_of_one_node_come_to_one_uid() -> None:
    assert EvidenceKey(Key("e1", b"e" * 32)).uid(NODE, "rid", 7, 0) == EVIDENCE.uid(NODE, "rid", 7, 0)


@pytest.mark.parametrize(
    "other",
    [
        (b"\1" * 16, "rid", 7, 0),
        (NODE, "rid2", 7, 0),
        (NODE, "rid", 8, 0),
        (NODE, "rid", 7, 1),
        (NODE, "rid7", None, 0),
    ],
)
def test_a_uid_depends_on_each_of_its_parts(other: tuple[bytes, str, int | None, int]) -> None:
    assert EVIDENCE.uid(*other) != EVIDENCE.uid(NODE, "rid", 7, 0)


def test_parts_of_a_uid_do_not_run_together() -> None:
    assert EVIDENCE.uid(NODE, "ab", "c", 0) != EVIDENCE.uid(NODE, "a", "bc", 0)


# ---------------------------------------------------------------------- salts that come again


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every salt whose MAC was worked out."""
    seen: list[object] = []

    def counted(salt: object, keys: Any) -> Identity | None:
        seen.append(salt)
        return verify_salt(salt, keys)

    monkeypatch.setattr("engine_hooks.identity.verify_salt", counted)
    return seen


def test_a_salt_that_was_vouched_for_is_worked_out_once(worked_out: list[object]) -> None:
    salts = Salts([MAC])
    assert [salts.identity(salt("acme")) for _ in range(3)] == [verify_salt(salt("acme"), [MAC])] * 3
    assert worked_out == [salt("acme")]


@pytest.mark.parametrize("sent", [None, "", "nonsense", 5, ["list"], salt("acme", mac_key=OTHER_MAC)])
def test_a_salt_that_nobody_vouches_for_is_never_remembered(sent: Any, worked_out: list[object]) -> None:
    salts = Salts([MAC])
    assert [salts.identity(sent) for _ in range(2)] == [None, None]
    assert len(worked_out) == (2 if isinstance(sent, str) else 0)


def test_the_memory_of_salts_is_bounded(worked_out: list[object]) -> None:
    salts = Salts([MAC], most=2)
    for name in ("a", "b", "c", "a", "b", "c"):
        assert salts.identity(salt(name)) == verify_salt(salt(name), [MAC])
    assert len(salts._vouched) <= 2
