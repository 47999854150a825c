"""`pagewitness collector`: the tokens under which emitters post. A running service sees each change at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from collector.settings import default_data_dir
from collector.tokens import TokenError, list_tokens, mint_token, revoke_token

app = typer.Typer(help="Tokens of the emitters that may post evidence.", no_args_is_help=True)

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="PAGEWITNESS_DATA_DIR",
        default_factory=default_data_dir,
        show_default=False,
        help="Folder of the service that is to take them.",
    ),
]


@app.command("mint-token")
def mint(
    prefix: Annotated[str, typer.Argument(help="Emitters named <prefix>/... may post with it, e.g. a host's name.")],
    data_dir: DataDir,
) -> None:
    """Make a token and print it. It is shown this once, and kept only as a digest.

    Example: pagewitness collector mint-token host1 > token
    """
    with _explained():
        token = mint_token(data_dir, prefix)
    typer.echo(f"token for emitters {prefix}/..., for the service on {data_dir}", err=True)
    typer.echo(token)


@app.command("list-tokens")
def show(data_dir: DataDir) -> None:
    """List tokens by id, with prefix and date; the tokens themselves are not kept."""
    with _explained():
        for token in list_tokens(data_dir):
            typer.echo(f"{token.id}\t{token.prefix}\t{token.created}")


@app.command("revoke-token")
def revoke(
    token_id: Annotated[str, typer.Argument(help="Its id, as list-tokens shows it: the part after pw_.")],
    data_dir: DataDir,
) -> None:
    """Stop taking a token. What it claimed stays claimed; what came under it stays stored."""
    with _explained():
        token = revoke_token(data_dir, token_id)
    typer.echo(f"token {token.id} for emitters {token.prefix}/... is revoked", err=True)


@contextmanager
def _explained() -> Iterator[None]:
    """End with exit code 2 and one sentence for a token that cannot be, 1 for a folder that cannot be used."""
    try:
        yield
    except TokenError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        typer.echo(f"cannot use the data directory: {error}", err=True)
        raise typer.Exit(1) from error
