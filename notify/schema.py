"""The JSON Schema of `pagewitness.affected/1`, made from the declared shapes: docs/api-affected.schema.json.

``python -m notify.schema`` prints it.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from notify.answers import AffectedAnswer


def affected_schema() -> dict[str, Any]:
    """The schema of the answer to `notify affected`."""
    adapter: TypeAdapter[Any] = TypeAdapter(AffectedAnswer)
    schema = adapter.json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pagewitness.affected/1", **schema}


def as_text() -> str:
    """The schema as the file holds it."""
    return json.dumps(affected_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(as_text(), end="")
