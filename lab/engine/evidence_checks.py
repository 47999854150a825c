"""Whether the bodies of a run are whole: every recording process of the pair posted to its end and lost nothing.

This looks at the evidence only, and knows nothing of the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine_hooks import conventions
from lab.captures.capture import Body
from lab.engine.pair import ROLES

_LOSSES = (conventions.DROPS.name, conventions.HOOK_ERRORS.name)


def faults(bodies: Iterable[Body], ranks: int = 1) -> list[str]:
    """What is wrong with the evidence of a pair whose nodes have so many ranks; empty when all is well."""
    spans = list(_spans(bodies))
    last: dict[str, dict[str, Any]] = {}
    for name, attributes in spans:
        if name == conventions.EMITTER_STATUS.name:
            last[attributes[conventions.SUBJECT.name]] = attributes
    posted = {role: sum(f"/{role}-" in name for name in last) for role in ROLES}
    found = [f"no {role} process posted its evidence" for role, number in posted.items() if not number]
    found += [f"{n} of {ranks} {role} processes posted their evidence" for role, n in posted.items() if 0 < n < ranks]
    for subject, attributes in last.items():
        if attributes[conventions.CLOSE.name] == "open":
            found.append(f"{subject} is still open in the last heartbeat")
        found += [f"{subject} reports {name} = {attributes[name]}" for name in _LOSSES if attributes[name]]
    return found


def count_spans(bodies: Iterable[Body]) -> int:
    """How many facts the bodies hold."""
    return sum(1 for _ in _spans(bodies))


def _spans(bodies: Iterable[Body]) -> Iterator[tuple[str, dict[str, Any]]]:
    for body in bodies:
        for resource in body.message().resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield span.name, {attribute.key: _value(attribute.value) for attribute in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
