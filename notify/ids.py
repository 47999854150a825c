"""Finding a response by what a person has: our id, its beginning, or the request id that the engine used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from detectors.queries import Row
from engine_hooks.identity import EvidenceKey, Key
from notify.errors import UnknownError, UsageError

_HEX = re.compile(r"[0-9a-f]{8,32}")
MATCHES = """(
    {prefix:String} != '' AND (startsWith(response_uid, {prefix:String}) OR startsWith(prefill_uid, {prefix:String}))
    OR rid IN {rids:Array(String)})"""
"""SQL: the row with the columns `response_uid`, `prefill_uid` and `rid` is one that was meant."""


@dataclass(frozen=True, slots=True)
class WantedId:
    """`prefix` of a leg's id (empty if the text cannot be one) and digests of it as a request id."""

    text: str
    prefix: str
    rids: tuple[str, ...]

    @classmethod
    def of(cls, text: str, evidence_keys: Sequence[Key]) -> WantedId:
        """What `text` can mean. Raises UsageError where it is too short to mean anything."""
        given = text.strip()
        is_hex = bool(_HEX.fullmatch(given.lower()))
        rids = [EvidenceKey(key).rid(given).hex() for key in evidence_keys] if given else []
        if is_hex and len(given) == 32:
            rids.append(given.lower())  # the digest itself
        if not is_hex and not rids:
            raise UsageError(
                f"{given[:64]!r} is not a response id: give 8 to 32 hex digits of one; to look for an engine's request "
                "id, the service needs PAGEWITNESS_EVIDENCE_KEY"
            )
        return cls(given, given.lower() if is_hex else "", tuple(rids))

    def params(self) -> dict[str, object]:
        """Parameters of MATCHES."""
        return {"prefix": self.prefix, "rids": list(self.rids)}

    def only(self, rows: Sequence[Row]) -> Row:
        """The one row that was meant. Raises UnknownError for none, UsageError for several."""
        if not rows:
            raise UnknownError(f"no response {self.text[:64]!r} has been judged; `notify status` says how far that is")
        if len(rows) > 1:
            shown = ", ".join(sorted(str(row["response_uid"]) for row in rows)[:5])
            raise UsageError(f"{self.text[:64]!r} means several responses: give more of the id, of {shown} ...")
        return rows[0]
