"""The table of incidents, for the operator: revisions are appended, and none is ever changed."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Any

from detectors.queries import Queries, Row
from notify.errors import UnknownError
from notify.incidents.definition import AsOf, Definition, Incident, Resolved
from notify.times import utc

_NEWEST = "SELECT * FROM incidents ORDER BY name"
_ONE = """
SELECT * FROM incident_revisions WHERE name = {name:String}
    AND ({revision:UInt32} = 0 OR revision = {revision:UInt32})
ORDER BY revision DESC LIMIT 1
"""
_FILTERS = tuple(field.name for field in fields(Definition))[2:]
_RESOLVED = tuple(field.name for field in fields(Resolved))
_AS_OF = tuple(field.name for field in fields(AsOf))
_COLUMNS = (
    *("name", "revision", "defined_at", "note", "window_from", "window_to"),
    *_FILTERS,
    *_RESOLVED,
    *(f"as_of_{name}" for name in _AS_OF),
    *("gaps", "digest"),
)


class IncidentBook:
    """Reads and appends definitions."""

    def __init__(self, handle: Queries) -> None:
        self._handle = handle

    def all(self) -> list[Incident]:
        """The newest revision of each, by name."""
        return [_incident(row) for row in self._handle.rows(_NEWEST)]

    def find(self, name: str, revision: int = 0) -> Incident | None:
        """One revision, by default the newest."""
        found = self._handle.rows(_ONE, {"name": name, "revision": revision})
        return _incident(found[0]) if found else None

    def get(self, name: str, revision: int = 0) -> Incident:
        """One revision, by default the newest. Raises UnknownError."""
        found = self.find(name, revision)
        if found is None:
            known = ", ".join(row["name"] for row in self._handle.rows("SELECT name FROM incidents ORDER BY name"))
            which = f"revision {revision} of incident {name[:64]!r}" if revision else f"incident {name[:64]!r}"
            raise UnknownError(f"unknown {which}: known incidents are {known or 'none; `notify incident define`'}")
        return found

    def append(self, incident: Incident) -> None:
        """Store a revision; durable when it returns."""
        filters = [getattr(incident.definition, name) for name in _FILTERS]
        values: list[Any] = [
            *(incident.name, incident.revision, incident.defined_at, incident.note),
            *(incident.definition.start, incident.definition.end),
            *(list(value) for value in filters),
            *(list(value) for value in astuple(incident.resolved)),
            *astuple(incident.as_of),
            *(list(incident.gaps), incident.digest),
        ]
        self._handle.insert("incident_revisions", _COLUMNS, [values])


def _incident(row: Row) -> Incident:
    as_of = {name: row[f"as_of_{name}"] for name in _AS_OF}
    for name in ("judged_at", "watermark", "evidence_from"):
        as_of[name] = utc(as_of[name]) if as_of[name] else None
    return Incident(
        name=row["name"],
        revision=row["revision"],
        defined_at=utc(row["defined_at"]),
        note=row["note"],
        definition=Definition(
            utc(row["window_from"]), utc(row["window_to"]), **{name: _tuple(row[name]) for name in _FILTERS}
        ),
        resolved=Resolved(**{name: _tuple(row[name]) for name in _RESOLVED}),
        as_of=AsOf(**as_of),
        gaps=tuple(row["gaps"]),
        digest=row["digest"],
    )


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(tuple(one) if isinstance(one, (list, tuple)) else one for one in values)
