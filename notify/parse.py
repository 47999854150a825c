"""Answers of a service, read back into their documented shapes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from notify.errors import CommandError


def parsed(shape: Any, said: Any) -> Any:
    """`said` as the shape. Raises CommandError where it is another one: the service is of another version."""
    try:
        return TypeAdapter(shape).validate_python(said)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise CommandError(
            f"the service answers in a shape that this version does not know (at {where}): use the `notify` of its own"
        ) from error
