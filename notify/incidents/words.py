"""Words of a definition, checked against what is known: a misspelt filter would look like an all-clear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from detectors.catalogue import EFFECTS, Rule
from engine_hooks.conventions import TRAFFIC
from notify.answers import SCOPES, Effect, Scope
from notify.errors import UsageError

_RANK = re.compile(r"-tp\d+$")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def checked_name(name: str) -> str:
    """The name of an incident. Raises UsageError for one that no shell, path or file could carry."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is no name for an incident: 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter "
            "or a digit; customers are shown it, so keep customers' names out of it"
        )
    return name


def checked(what: str, given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """`given` without repetitions. Raises UsageError that lists what is known."""
    wanted, choices = tuple(dict.fromkeys(given)), sorted(known)
    strangers = [word for word in wanted if word not in choices]
    if strangers:
        listed = ", ".join(choices) or "none: nothing was judged yet"
        raise UsageError(f"unknown {what} {', '.join(map(repr, strangers))[:200]}: known are {listed}")
    return wanted


def checked_effects(given: Iterable[str]) -> tuple[Effect, ...]:
    """Effects, gravest first. Raises UsageError."""
    wanted = checked("effect", given, EFFECTS)
    known: tuple[Effect, ...] = ("contamination", "exposure_risk", "posture")
    return tuple(effect for effect in known if effect in wanted)


def checked_scopes(given: Iterable[str]) -> tuple[Scope, ...]:
    """Scopes, gravest first. Raises UsageError."""
    wanted = checked("scope", given, SCOPES)
    return tuple(scope for scope in SCOPES if scope in wanted)


def checked_traffic(given: Iterable[str]) -> tuple[str, ...]:
    """Traffic labels. Raises UsageError."""
    return checked("traffic label", given, TRAFFIC.choices)


def checked_rules(given: Iterable[str], effects: Sequence[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """`rule` or `rule.variant` words. Raises UsageError for an unknown one, and for one without any of the effects."""
    labels = {label: effect for rule in rules for label, effect in _labels(rule)}
    wanted = checked("rule", given, {*labels, *(rule.name for rule in rules)})
    for word in wanted:
        has = sorted({effect for label, effect in labels.items() if word in (label, label.split(".")[0])})
        if not set(has) & set(effects):
            raise UsageError(
                f"rule {word!r} never has the effect {' or '.join(effects)}, so it would find nothing: its effect is "
                f"{', '.join(has)} (--effect {has[0]})"
            )
    return wanted


def risk_labels(wanted: Sequence[str], effects: Sequence[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """`rule.variant` of the wanted rules (none: of all) with one of the effects, other than contamination."""
    return tuple(
        label
        for rule in rules
        for label, effect in _labels(rule)
        if effect != "contamination" and effect in effects and (not wanted or {label, rule.name} & set(wanted))
    )


def rules_digest(rules: Sequence[Rule]) -> str:
    """Tells one version of the rule set from another, 16 hex digits: names, variants with their effects, and SQL."""
    said = [(rule.name, [(one.name, one.effect) for one in rule.variants], rule.sql) for rule in rules]
    return sha256(repr(said).encode()).hexdigest()[:16]


def effects_of(rules: Sequence[Rule]) -> dict[str, str]:
    """The effect of each `rule.variant`."""
    return {label: effect for rule in rules for label, effect in _labels(rule)}


def emitters_of(given: Iterable[str], known: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Nodes as (words, emitters): a word is an emitter, or its name without the rank, which stands for every rank.

    `known` are emitters. Raises UsageError.
    """
    emitters = sorted(known)
    wanted = checked("node", given, {*emitters, *map(node_of, emitters)})
    return wanted, tuple(one for one in emitters if one in wanted or node_of(one) in wanted)


def node_of(emitter: str) -> str:
    """The node that an emitter is a rank of: `host1/decode-31001` of `host1/decode-31001-tp0`."""
    return _RANK.sub("", emitter)


def _labels(rule: Rule) -> list[tuple[str, str]]:
    return [(f"{rule.name}.{one.name}" if one.name else rule.name, one.effect) for one in rule.variants]
