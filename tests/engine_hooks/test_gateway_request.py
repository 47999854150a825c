"""What is left of a client's request: nothing that lets it choose who it is, or where and under which id it runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import from_json

from engine_hooks.gateway_request import (
    IDENTITY_FIELDS,
    INFERENCE_PATHS,
    REMOVED_FIELDS,
    InferencePath,
    Prepared,
    RefusedError,
    check_headers,
    clean_headers,
    prepare,
    removed_fields,
)

GENERATE = INFERENCE_PATHS["/generate"]
RID = "0123456789abcdef" * 2
SALT = "1.p1.our-salt"
MOST = 1000


def prepared(body: bytes | dict[str, Any], path: InferencePath = GENERATE, salt: str | None = SALT) -> Prepared:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return prepare(raw, path, salt=salt, rid=RID, removed=removed_fields())


def fields(body: bytes | dict[str, Any], path: InferencePath = GENERATE, salt: str | None = SALT) -> dict[str, Any]:
    found = json.loads(prepared(body, path, salt).body)
    assert isinstance(found, dict)
    return found


# ------------------------------------------------------------------ fields


@pytest.mark.parametrize("name", REMOVED_FIELDS)
@pytest.mark.parametrize("value", ["stolen", ["a", "b"], 7, {"nested": "x"}, "", None], ids=repr)
def test_a_field_that_a_client_must_not_choose_is_gone_or_ours(name: str, value: object) -> None:
    ours = {"cache_salt": SALT, "rid": RID}
    assert fields({"text": "hello", name: value}) == {"text": "hello", **ours}


def test_the_rest_of_the_body_is_as_it_came() -> None:
    sent = {
        "text": "ünïcode ☃ \ud800", "sampling_params": {"temperature": 0.1, "n": 1, "stop": ["</s>"]}, "stream": True,
        "big": 2**63, "tiny": 1e-300, "user": "u", "priority": 3, "nothing": None, "deep": {"cache_salt": "nobody's"},
    }  # fmt: skip
    assert fields(sent) == sent | {"cache_salt": SALT, "rid": RID}


def test_without_a_tenant_no_salt_goes_on_at_all() -> None:
    assert fields({"text": "x", "cache_salt": "stolen"}, salt=None) == {"text": "x", "rid": RID}


@pytest.mark.parametrize(("sent", "said"), [("mine", True), (["a"], True), ("", True), (None, False), (..., False)])
def test_whether_the_client_sent_a_salt_is_noted(sent: object, said: bool) -> None:
    body = {"text": "x"} | ({} if sent is ... else {"cache_salt": sent})
    assert prepared(body).client_salt is said


@pytest.mark.parametrize("salt", [SALT, None])
def test_an_old_engine_gets_the_salt_where_it_looks_for_it(salt: str | None) -> None:
    path = InferencePath(salt_field="extra_key")
    body = b'{"text": "x", "cache_salt": "mine", "extra_key": "mine"}'
    result = prepare(body, path, salt=salt, rid=RID, removed=removed_fields(keep=["extra_key"]))
    assert json.loads(result.body) == {"text": "x", "rid": RID} | ({"extra_key": SALT} if salt else {})


def test_a_field_can_be_kept_for_clients_but_not_who_they_are() -> None:
    assert "extra_key" not in removed_fields(keep=["extra_key"])
    for name in IDENTITY_FIELDS:
        with pytest.raises(ValueError, match="choose who it is"):
            removed_fields(keep=[name])
    with pytest.raises(ValueError, match="is not taken out"):
        removed_fields(keep=["temperature"])


@pytest.mark.parametrize(
    "body",
    [
        b'{"cache_salt": "a", "text": "x", "cache_salt": "b"}',
        b'{"cache\\u005fsalt": "a", "text": "x", "\\u0063ache_salt": "b"}',
        b'{"rid": "HEALTH_CHECK_1", "text": "x", "rid": ["a"]}',
    ],
)
def test_a_repeated_or_escaped_key_smuggles_nothing(body: bytes) -> None:
    result = prepared(body).body
    assert result.count(b"cache_salt") == result.count(b'"rid"') == 1
    assert fields(body) == {"text": "x", "cache_salt": SALT, "rid": RID}


# ------------------------------------------------------------------ ids


@pytest.mark.parametrize(
    ("path", "body", "ids"),
    [
        ("/generate", {"text": "one"}, [RID]),
        ("/generate", {"text": ["one"]}, [f"{RID}_0"]),
        ("/generate", {"text": ["one", "two"]}, [f"{RID}_0", f"{RID}_1"]),
        ("/generate", {"input_ids": [1, 2, 3]}, [RID]),
        ("/generate", {"input_ids": [[1], [2, 3]]}, [f"{RID}_0", f"{RID}_1"]),
        ("/generate", {"text": None, "input_ids": [[1], [2]]}, [f"{RID}_0", f"{RID}_1"]),
        ("/generate", {"input_embeds": [[0.1], [0.2]]}, [RID]),
        ("/generate", {"input_embeds": [[[0.1]], [[0.2]]]}, [f"{RID}_0", f"{RID}_1"]),
        ("/generate", {"text": "one", "sampling_params": {"n": 2}}, []),
        ("/generate", {"text": ["one"], "sampling_params": [{"n": 2}]}, []),
        ("/generate", {"text": "one", "sampling_params": {"n": "1"}}, [RID]),
        ("/v1/chat/completions", {"messages": [], "n": "1"}, [RID]),
        ("/generate", {"text": ["x"] * 5000}, []),
        ("/generate", {"text": []}, [RID]),
        ("/v1/completions", {"prompt": "one"}, [RID]),
        ("/v1/completions", {"prompt": [1, 2]}, [RID]),
        ("/v1/completions", {"prompt": ["one", "two"]}, [f"{RID}_0", f"{RID}_1"]),
        ("/v1/completions", {"prompt": "one", "n": 3}, []),
        ("/v1/chat/completions", {"messages": [{}, {}]}, [RID]),
        ("/v1/chat/completions", {"messages": [], "n": 1}, [RID]),
        ("/v1/chat/completions", {"messages": [], "n": "2"}, []),
        ("/v1/responses", {"input": [{}, {}]}, [f"resp_{RID}"]),
        ("/v1/embeddings", {"input": ["one", "two"]}, []),
    ],
)
def test_the_ids_that_the_engine_will_use_are_known_or_said_to_be_unknown(
    path: str, body: dict[str, Any], ids: list[str]
) -> None:
    assert list(prepared(body, INFERENCE_PATHS[path]).rids) == ids


def test_the_id_stands_where_the_path_wants_it() -> None:
    assert fields({"input": "x", "rid": "mine"}, INFERENCE_PATHS["/v1/responses"])["request_id"] == f"resp_{RID}"
    assert not {"rid", "request_id"} & set(fields({"input": "x", "rid": "mine"}, INFERENCE_PATHS["/v1/embeddings"]))


# ------------------------------------------------------------------ bodies that nobody can read safely


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"[]", b'"text"', b"null", b"7", b'{"text": "x"} {}', b'{"text": "x",}', b"{'text': 'x'}",
        b'{"text": "\xff"}', '{"text": "x"}'.encode("utf-16"), b'\xef\xbb\xbf{"text": "x"}', b'{"a": NaN}',
        b'{"a": Infinity}', b'{"a": 1e999}', b'{"a": ' + b"9" * 5000 + b"}", b"[" * 200_000,
        b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", b"text=x&cache_salt=y", b"\x28\xb5\x2f\xfd{}",
    ],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
def test_what_is_no_json_object_in_utf8_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        prepared(body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        (b"content-encoding", b"gzip", 415), (b"Content-Encoding", b"identity, br", 415),
        (b"x-body-compressed", b"zstd", 415), (b"content-length", b"1001", 413), (b"content-length", b"9" * 5000, 413),
        (b"content-length", b" 0001001 ", 413),
    ],
)  # fmt: skip
def test_a_compressed_or_too_long_body_is_refused_before_it_is_read(name: bytes, value: bytes, status: int) -> None:
    with pytest.raises(RefusedError) as caught:
        check_headers([(b"host", b"x"), (name, value)], MOST)
    assert caught.value.status == status


def test_an_ordinary_body_is_not_refused() -> None:
    check_headers([(b"content-encoding", b"identity"), (b"content-length", b"1000"), (b"accept", b"*/*")], MOST)
    check_headers([(b"content-length", b"0" * 5000), (b"content-length", b"many")], MOST)


def test_headers_that_speak_for_the_client_are_gone_and_the_length_is_the_new_one() -> None:
    sent = [
        (b"Host", b"x"), (b"Content-Length", b"3"), (b"content-length", b"4"), (b"Transfer-Encoding", b"chunked"),
        (b"content-encoding", b"identity"), (b"X-Override-Rid", b"HEALTH_CHECK"), (b"x-override-bootstrap-room", b"1"),
        (b"X-SMG-Routing-Key", b"k"), (b"x-data-parallel-rank", b"0"), (b"x-pagewitness-response-id", b"mine"),
        (b"authorization", b"Bearer t"),
    ]  # fmt: skip
    assert list(clean_headers(sent, 42)) == [
        (b"Host", b"x"), (b"authorization", b"Bearer t"), (b"content-length", b"42"),
    ]  # fmt: skip


# ------------------------------------------------------------------ whatever a client sends

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(REMOVED_FIELDS), inner),
    max_leaves=12,
)
KEYS = st.sampled_from([*REMOVED_FIELDS, "text", "sampling_params", "n", "Cache_Salt", "cache_salt "]) | st.text()


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """An object as text, with keys that may occur twice, in some encoding, maybe with bytes changed or added."""
    members = draw(st.lists(st.tuples(KEYS, JSON), max_size=8))
    ascii_only = draw(st.booleans())
    text = ",".join(f"{json.dumps(key, ensure_ascii=ascii_only)}:{json.dumps(value)}" for key, value in members)
    body = f"{{{text}}}".encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-16", "utf-8-sig"])), "surrogatepass")
    place = draw(st.integers(0, len(body)))
    return body[:place] + draw(st.binary(max_size=2) | st.just(b"")) + body[place:]


@pytest.mark.parametrize("salt", [SALT, None])
@given(body=objects() | JSON.map(lambda value: json.dumps(value).encode()) | st.binary())
@example(body=b'{"cache_salt":1,"\\u0063ache_salt":2}')
def test_whatever_a_client_sends_the_engine_never_gets_a_salt_or_an_id_but_ours(body: bytes, salt: str | None) -> None:
    try:
        result = prepared(body, salt=salt).body
    except RefusedError:
        return  # it does not reach the engine

    pairs: list[tuple[str, Any]] = json.loads(result, object_pairs_hook=list)
    seen = {name: [value for key, value in pairs if key == name] for name in REMOVED_FIELDS}
    ours = {"cache_salt": [salt] if salt else [], "rid": [RID]}
    assert seen == {name: ours.get(name, []) for name in REMOVED_FIELDS}
    if b"\\ud" not in result:  # that parser takes no lone surrogates
        assert from_json(result).get("cache_salt") == salt  # and reads the same
