"""Builders of what detection stores: responses with their verdicts, findings, foreign ranges, the state.

    book = VerdictBook(handle)
    leak = book.response("acme", verdict="violation", scope="cross_tenant", donor_tenants=1, foreign_slots=16)
    book.foreign_range(leak, donor=book.response("zenith"), donor_tenant="zenith")
    book.state()

Tenants are given by name; their pseudonyms are made with KEYS, the first one unless told otherwise. What a test does
not name gets a plain default: a clean response of one second, each a minute after the one before. Many rows at once
take the time of one: `with book.together(): ...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from detectors.newest import settle
from detectors.queries import Queries
from detectors.results import FINDING_COLUMNS, RANGE_COLUMNS, RESPONSE_COLUMNS
from engine_hooks.conventions import UNATTRIBUTED
from engine_hooks.identity import EvidenceKey, Key, pseudonym

KEYS = (Key("k2", bytes(range(32))), Key("k1", bytes(range(1, 33))))
"""Pseudonym keys of the tests: k2 is in use, k1 was before it."""

EVIDENCE_KEY = Key("e1", bytes(range(2, 34)))

START = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
"""When the first response starts."""

RULE_SET = "6 rules, control tier; queued, not landed"


class VerdictBook:
    """Writes rows as the detectors do, one call a row; where not `settled`, as an older version did."""

    def __init__(self, handle: Queries, *, settled: bool = True) -> None:
        self._handle = handle
        self._settled = settled
        self._count = 0
        self._version = 1
        self._versions: dict[str, int] = {}  # the newest of each response
        self._waiting: dict[tuple[str, Sequence[str]], list[dict[str, Any]]] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is stored meanwhile is there at the end."""
        self._waiting = {}
        try:
            yield
            for (table, columns), rows in self._waiting.items():
                self._store(table, columns, rows)
        finally:
            self._waiting = None

    def identity(self, tenant: str, key: Key = KEYS[0]) -> tuple[str, str]:
        """(tenant, tenant_key) as stored: the pseudonym, or nobody for the word `unattributed`."""
        return (UNATTRIBUTED, "") if tenant == UNATTRIBUTED else (pseudonym(key, tenant), key.id)

    def response(self, tenant: str = "acme", *, key: Key = KEYS[0], rid: str = "", **fields: Any) -> str:
        """Store one response; returns its uid. `fields` are columns of the table; `rid` is the engine's request id."""
        self._count += 1
        uid = fields.pop("uid", f"{self._count:08x}" * 4)
        started = fields.pop("started", START + timedelta(minutes=self._count - 1))
        name, key_id = self.identity(tenant, key)
        verdict = fields.get("verdict", "clean")
        row: dict[str, Any] = {
            "response_uid": uid,
            "version": self._next_version(),
            "prefill_uid": f"{self._count:08x}"[::-1] * 4,
            "tenant": name,
            "tenant_key": key_id,
            "traffic": "customer",
            "rid": EvidenceKey(EVIDENCE_KEY).rid(rid).hex(),
            "model": "tiny",
            "emitter": "host1/decode-31001-tp0",
            "started": started,
            "ended": started + timedelta(seconds=1),
            "verdict": verdict,
            "reasons": [],
            "clean_for": RULE_SET if verdict == "clean" else "",
            "scope": "",
            "derived": False,
            "tokens_delivered": 64,
            "output_tokens": 64,
            "input_tokens": 160,
            "http_status": 200,
            "finish": "length",
            "foreign_slots": 0,
            "unattributed_slots": 0,
            "no_writer_slots": 0,
            "donor_tenants": 0,
            "rules": ["read_unwritten_page"] if verdict == "violation" else [],
            "exposure_rules": [],
        }
        self._versions[uid] = (row | fields)["version"]
        self._insert("response_versions", RESPONSE_COLUMNS, row | fields)
        return str(uid)

    def foreign_range(
        self,
        reader: str,
        *,
        donor: str = "",
        donor_tenant: str = "",
        key: Key = KEYS[0],
        slots: tuple[int, int] = (0, 16),
        page: int = 7,
        token_start: int = 0,
        scope: str = "cross_tenant",
        **fields: Any,
    ) -> None:
        """Store one range that `reader`, a response of this book, read. It belongs to the newest version of its row."""
        name, key_id = self.identity(donor_tenant, key) if donor_tenant else ("", "")
        row: dict[str, Any] = {
            "response_uid": reader,
            "version": self._versions[reader],
            "page": page,
            "slot_start": slots[0],
            "slot_end": slots[1],
            "token_start": token_start,
            "scope": scope,
            "via": "stale_page",
            "donor_uid": donor,
            "donor_response_uid": donor,
            "donor_tenant": name,
            "donor_tenant_key": key_id,
            "donor_rid": "",
        }
        self._insert("foreign_range_versions", RANGE_COLUMNS, row | fields)

    def leak(self, recipient: str = "acme", donor: str = "zenith", **fields: Any) -> tuple[str, str]:
        """A response of `recipient` that read one page of a response of `donor`. Returns both uids."""
        source = self.response(donor)
        shape: dict[str, Any] = {"verdict": "violation", "scope": "cross_tenant"}
        shape |= {"donor_tenants": 1, "foreign_slots": 16}
        reader = self.response(recipient, **(shape | fields))
        self.foreign_range(reader, donor=source, donor_tenant=donor)
        return reader, source

    def finding(self, response: str, tenant: str = "acme", *, key: Key = KEYS[0], **fields: Any) -> None:
        """Store one finding about a response: a short transfer, unless told otherwise."""
        self._count += 1
        name, key_id = self.identity(tenant, key)
        row: dict[str, Any] = {
            "finding_id": f"{self._count:032x}",
            "rule": "transfer_short",
            "variant": "committed",
            "effect": "exposure_risk",
            "severity": "critical",
            "subject": response,
            "response_uid": response,
            "tenant": name,
            "tenant_key": key_id,
            "time": START,
            "tokens_from": None,
            "tokens_to": None,
            "detail": "The transfer was taken for complete with less than what was reserved.",
            "version": self._next_version(),
            "retracted": False,
        }
        self._insert("finding_versions", FINDING_COLUMNS, row | fields)

    def state(self, **fields: Any) -> None:
        """Store how far detection came: by default an hour past START, with all evidence received judged."""
        row: dict[str, Any] = {
            "judged_at": datetime.now(UTC),
            "cursor": datetime.now(UTC) + timedelta(days=1),
            "watermark": START + timedelta(hours=1),
            "evidence_from": START,
            "rule_set": RULE_SET,
        }
        row |= fields
        self._handle.insert("detection_runs", tuple(row), [list(row.values())])

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _insert(self, table: str, columns: Sequence[str], row: dict[str, Any]) -> None:
        if self._waiting is None:
            self._store(table, columns, [row])
        else:
            self._waiting.setdefault((table, columns), []).append(row)

    def _store(self, table: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
        self._handle.insert(table, columns, [[row[name] for name in columns] for row in rows])
        if self._settled:
            settle(self._handle, min(row["version"] for row in rows))
