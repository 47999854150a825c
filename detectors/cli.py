"""`pagewitness detectors`: what the rules are. Judging itself runs inside `pagewitness serve`."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Literal

import typer

app = typer.Typer(help="The detection rules.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """The detection rules: what each means, what it needs, how far it is proven."""


@app.command()
def rules(
    output: Annotated[Literal["table", "json"], typer.Option(help="How to print.")] = "table",
) -> None:
    """List the rules that ship, with effect and severity of each variant.

    Example: pagewitness detectors rules --output json
    """
    from detectors.catalogue import load_rules

    loaded = load_rules()
    if output == "json":
        typer.echo(
            json.dumps(
                [
                    {
                        "rule": rule.name,
                        "title": rule.title,
                        "condition": rule.condition,
                        "maturity": rule.maturity,
                        "variants": [
                            {"variant": one.name, "effect": one.effect, "severity": one.severity, "means": one.means}
                            for one in rule.variants
                        ],
                        "inputs": {role: list(facts) for role, facts in rule.inputs.items()},
                        "references": list(rule.references),
                    }
                    for rule in loaded
                ],
                indent=2,
            )
        )
        return
    for rule in loaded:
        typer.echo(_wrapped(f"{rule.name} ({rule.maturity}): {rule.title}"))
        for one in rule.variants:
            typer.echo(f"  {one.name or rule.name:<12} {one.effect}, {one.severity}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="The rule, e.g. transfer_short.")]) -> None:
    """Explain one rule: condition, variants, traps, references.

    Example: pagewitness detectors show read_unwritten_page
    """
    from detectors.catalogue import load_rules

    found = [rule for rule in load_rules() if rule.name == name]
    if not found:
        known = ", ".join(rule.name for rule in load_rules())
        typer.echo(f"there is no rule {name!r}; the rules are: {known}", err=True)
        raise typer.Exit(2)
    (rule,) = found
    typer.echo(f"{_wrapped(f'{rule.name}: {rule.title}')}\n\n{_wrapped(rule.condition)}\n")
    for one in rule.variants:
        typer.echo(_wrapped(f"{one.name or rule.name}: {one.effect}, {one.severity}. {one.means}"))
    typer.echo("\nDoes not fire on:")
    for trap in rule.traps:
        typer.echo(_wrapped(f"- {trap}", indent="  "))
    for reference in rule.references:
        typer.echo(f"See {reference}")


def _wrapped(text: str, indent: str = "") -> str:
    """A paragraph for 80 columns."""
    return textwrap.fill(text, width=80, subsequent_indent=indent)
