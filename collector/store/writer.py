"""Inserts export requests, and says what became of each span. One caller at a time: :mod:`collector.store.turns`."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from clickhouse_connect.driver.exceptions import DatabaseError, Error

from collector.store.errors import BodyRefusedError, StoreFailedError
from collector.store.handle import Handle, Row
from collector.store.protobuf import INSERT_SETTINGS, delimited
from collector.store.receipt import UNKNOWN_ATTRIBUTE, Receipt

_BODY_FAULTS = frozenset({6, 27, 32, 33, 36, 38, 72, 117, 128, 131, 434, 435, 436, 444})
"""Codes with which ClickHouse says that it cannot read the data: the same body would fail again. Anything else (disk,
memory, shutting down) is the store's trouble."""

_BOOTS_REMEMBERED = 100_000

_REJECT = f"if(reason = '' AND unknown_attributes > 0, '{UNKNOWN_ATTRIBUTE}', reason)"
"""SQL: why a row of `arrivals` belongs into `evidence_rejects`, or ''."""


class EvidenceWriter:
    """Each request is inserted under its own `received_at`.

    `received_at` rises strictly, over a clock that is set back and over restarts too, so that it can be a cursor: what
    a reader has not seen yet always has a later one.
    """

    def __init__(self, handle: Handle, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._handle = handle
        self._now_ns = now_ns
        self._received_at = _newest_received_at(handle)
        # The highest seq that each boot has, as far as it was asked for: what comes above it contradicts nothing.
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()

    def insert(self, messages: Sequence[bytes]) -> list[Receipt]:
        """Store serialised ExportTraceServiceRequests; durable when it returns, with a receipt for each.

        Raises BodyRefusedError, with nothing stored of any of them, or StoreFailedError.
        """
        times = [self._next_received_at() for _ in messages]
        stamped = b"".join(delimited(message, at) for message, at in zip(messages, times, strict=True))
        try:
            self._handle.command("TRUNCATE TABLE arrivals")
            self._insert_into_inbox(stamped)
            arrived = self._arrived()
            if any(_reasons(row) for row in arrived):
                self._keep_rejects()
            if not self._all_new(arrived):
                self._note_contradictions()
            self._remember(arrived)
        except Error as error:
            self._newest.clear()
            raise StoreFailedError(f"the store did not take it ({error.name}, code {error.code})") from error
        return [_receipt(row for row in arrived if row["at"] == at) for at in times]

    def _next_received_at(self) -> int:
        self._received_at = max(self._now_ns(), self._received_at + 1)
        return self._received_at

    def _insert_into_inbox(self, stamped: bytes) -> None:
        settings = ", ".join(f"{name} = {_quoted(value)}" for name, value in INSERT_SETTINGS.items())
        with _as_file(stamped) as path:
            try:
                self._handle.command(f"INSERT INTO inbox FROM INFILE '{path}' SETTINGS {settings} FORMAT Protobuf")
            except UnicodeDecodeError:  # the engine's message quotes the body
                raise BodyRefusedError("the store cannot read it") from None
            except DatabaseError as error:
                if error.code not in _BODY_FAULTS:
                    raise
                raise BodyRefusedError(f"the store cannot read it ({error.name})") from None

    def _arrived(self) -> list[Row]:
        """For each request and boot in it: how many spans were stored, with which seqs; what was amiss, how often."""
        return self._handle.rows(
            "SELECT toUnixTimestamp64Nano(received_at) AS at, emitter, boot, countIf(reason = '') AS stored, "
            "minIf(assumeNotNull(seq), reason = '') AS first, maxIf(assumeNotNull(seq), reason = '') AS last, "
            "uniqExactIf(seq, reason = '') AS seqs, "
            f"sumMapIf([{_REJECT}], [1], {_REJECT} != '') AS reasons "
            "FROM arrivals GROUP BY at, emitter, boot ORDER BY at"
        )

    def _all_new(self, arrived: Sequence[Row]) -> bool:
        """Whether no fact of this insert can have come before: each is above what its boot had, and comes once."""
        newest = dict(self._newest)
        for row in arrived:
            known = newest.get((row["emitter"], row["boot"]))
            if row["stored"]:
                if known is None or row["first"] <= known or row["seqs"] < row["stored"]:
                    return False
                newest[row["emitter"], row["boot"]] = row["last"]
        return True

    def _remember(self, arrived: Iterable[Row]) -> None:
        for row in arrived:
            boot = row["emitter"], row["boot"]
            if row["stored"]:
                known = self._newest.pop(boot, None)
                self._newest[boot] = max(row["last"], self._newest_seq(*boot) if known is None else known)
        while len(self._newest) > _BOOTS_REMEMBERED:
            self._newest.popitem(last=False)

    def _newest_seq(self, emitter: str, boot: str) -> int:
        rows = self._handle.query(
            "SELECT max(seq) FROM evidence WHERE emitter = {emitter:String} AND boot = {boot:String}",
            {"emitter": emitter, "boot": boot},
        )
        return int(rows[0][0])

    def _keep_rejects(self) -> None:
        self._handle.command(
            "INSERT INTO evidence_rejects SELECT received_at, emitter, boot, seq, "
            f"{_REJECT}, unknown_attributes, size FROM arrivals WHERE {_REJECT} != ''"
        )

    def _note_contradictions(self) -> None:
        """Note every content of those facts of this insert that now have two or more."""
        self._handle.command(
            "INSERT INTO contradictions SELECT emitter, boot, seq, arrayJoin(hashes) FROM ("
            "SELECT emitter, boot, seq, groupUniqArray(content_hash) AS hashes FROM evidence "
            "WHERE (emitter, boot, seq) IN (SELECT emitter, boot, seq FROM arrivals WHERE reason = '') "
            "GROUP BY emitter, boot, seq HAVING length(hashes) > 1)"
        )


def _newest_received_at(handle: Handle) -> int:
    rows = handle.query(
        "SELECT greatest((SELECT max(toUnixTimestamp64Nano(received_at)) FROM evidence), "
        "(SELECT max(toUnixTimestamp64Nano(received_at)) FROM evidence_rejects))"
    )
    return int(rows[0][0])


def _receipt(rows: Iterable[Row]) -> Receipt:
    stored = 0
    rejects: dict[str, int] = {}
    for row in rows:
        stored += row["stored"]
        for reason, count in _reasons(row).items():
            rejects[reason] = rejects.get(reason, 0) + count
    return Receipt(stored, rejects)


def _reasons(row: Row) -> dict[str, int]:
    """What a row of `_arrived` says was amiss: sumMap gives two lists side by side."""
    return dict(zip(*row["reasons"], strict=True))


def _quoted(text: str) -> str:
    """A SQL string: the installation's path is in one of the settings."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The path of an unnamed file in memory: what a client sent must not touch the disk before it is judged."""
    descriptor = os.memfd_create("pagewitness")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
