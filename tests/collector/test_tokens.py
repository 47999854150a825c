"""Tokens: bound to a prefix, kept as digests, seen at once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.tokens import NAME, TokenError, TokenFile, list_tokens, mint_token, revoke_token


def test_a_token_is_identified_with_its_prefix(tmp_path: Path) -> None:
    text = mint_token(tmp_path, "host1")
    token = TokenFile(tmp_path).identify(text)
    assert token is not None
    assert (token.prefix, text.startswith(f"pw_{token.id}_")) == ("host1", True)


def test_a_reader_that_was_there_before_sees_a_new_token_at_once(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    for number in range(5):
        text = mint_token(tmp_path, f"host{number}")
        token = tokens.identify(text)
        assert token is not None
        assert token.prefix == f"host{number}"


def test_a_reader_that_was_there_before_misses_a_revoked_token_at_once(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    text = mint_token(tmp_path, "host1")
    token = tokens.identify(text)
    assert token is not None
    revoke_token(tmp_path, token.id)
    assert tokens.identify(text) is None


@pytest.mark.parametrize("text", ["", "x", "pw_", "pw_000000000000_" + "A" * 43])
def test_what_is_no_token_is_nobody(text: str, tmp_path: Path) -> None:
    mint_token(tmp_path, "host1")
    assert TokenFile(tmp_path).identify(text) is None


def test_without_a_file_there_is_nobody(tmp_path: Path) -> None:
    assert TokenFile(tmp_path).identify(mint_token(tmp_path / "other", "host1")) is None


def test_the_file_does_not_hold_the_secret_and_is_for_its_owner_only(tmp_path: Path) -> None:
    secret = mint_token(tmp_path, "host1").split("_", 2)[2]
    path = tmp_path / NAME
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("emitter", "covered"),
    [
        ("host1/a", True),
        ("host1/a/b", True),
        ("host1", False),
        ("host1/", True),
        ("host10/a", False),
        ("x/host1/a", False),
    ],
)
def test_a_token_covers_what_is_below_its_prefix(emitter: str, covered: bool, tmp_path: Path) -> None:
    token = TokenFile(tmp_path).identify(mint_token(tmp_path, "host1"))
    assert token is not None
    assert token.covers(emitter) is covered


@pytest.mark.parametrize("prefix", ["", "/", "host1/", "/host1", "a b", "a//b", "*", "host\n", "x" * 129])
def test_a_prefix_that_cannot_be_is_refused(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="cannot be a prefix"):
        mint_token(tmp_path, prefix)


def test_tokens_that_are_minted_at_once_are_all_kept(tmp_path: Path) -> None:
    threads = [threading.Thread(target=mint_token, args=[tmp_path, f"host{number}"]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {token.prefix for token in list_tokens(tmp_path)} == {f"host{number}" for number in range(8)}


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps({"tokens": [{"id": 1}]}))
    with pytest.raises(TokenError, match=f"cannot read {tmp_path / NAME}"):
        TokenFile(tmp_path).identify("pw_000000000000_" + "A" * 43)


# ---------------------------------------------------------------- on the command line


def test_the_command_prints_the_token_and_nothing_else_on_stdout(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["mint-token", "host1", "--data-dir", str(tmp_path)])
    assert done.exit_code == 0
    token = TokenFile(tmp_path).identify(done.stdout.strip())
    assert token is not None
    assert "host1/..." in done.stderr


def test_the_commands_list_and_revoke(tmp_path: Path) -> None:
    token_id = mint_token(tmp_path, "host1").split("_")[1]
    runner = CliRunner()
    listed = runner.invoke(app, ["list-tokens", "--data-dir", str(tmp_path)])
    assert listed.stdout.split("\t")[:2] == [token_id, "host1"]
    assert runner.invoke(app, ["revoke-token", token_id, "--data-dir", str(tmp_path)]).exit_code == 0
    assert list_tokens(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["mint-token", "a b"], "cannot be a prefix"), (["revoke-token", "none"], "no token 'none'")],
)
def test_what_cannot_be_is_exit_2_and_one_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*arguments, "--data-dir", str(tmp_path)])
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stdout == ""
