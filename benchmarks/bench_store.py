"""What a span costs from the receiver to the disk.

CPU time of the whole process, the engine's threads included. The floor is the same engine inserting the same rows when
they are typed columns already (ClickHouse's Native format), as durably. `walked in Python` is only the parsed protobuf
made into rows by a loop over spans and attributes, with nothing checked and nothing stored. A request of 2,000 spans
has about 900 KB, which is what an agent sends at most at a time. The receiver is the real one over HTTP and gzip, its
senders are another process.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.receiver import create_receiver
from collector.store import Store, open_store
from collector.store.schema import DURABLE
from collector.store.writer import EvidenceWriter
from collector.tokens import TokenFile
from tests.support.otlp import Fact, fact, message
from tests.support.receivers import Sender, sender, served

TITLE = "Receiver and store"
LARGE = 2_000
SENDERS = 8
ROUNDS = 12
GOALS = {f"receiver, {SENDERS} senders, {LARGE} spans a request": 20.0}

_SENDER = """
import sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
url, token, senders, *paths = sys.argv[1:]
headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "Authorization": "Bearer " + token}
def send(path):
    request = urllib.request.Request(url, open(path, "rb").read(), headers)
    assert urllib.request.urlopen(request, timeout=120).status == 200
with ThreadPoolExecutor(int(senders)) as pool:
    list(pool.map(send, paths))
"""


def run() -> dict[str, dict[str, float]]:
    """CPU time of one span, and how many one core does in a second, for each way."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "data") as store:
        bodies = Bodies()
        rows = {"typed rows, Native (floor)": _floor(store, bodies)}
        rows["walked in Python, not stored"] = _per_span(LARGE, _walk, bodies.of(LARGE, 3))
        for size in (50, 500, LARGE):
            rows[f"store, {size} spans a request"] = _per_span(size, store.insert_otlp, bodies.of(size))
        rows[f"store, {SENDERS} requests of {LARGE} at once"] = _together(store, bodies)
        with served(create_receiver(store, TokenFile(store.data_dir))) as url:
            host1 = sender(url, store.data_dir)
            for count in (1, SENDERS):
                name = f"receiver, {count} {'sender' if count == 1 else 'senders'}, {LARGE} spans a request"
                rows[name] = _received(host1, bodies, Path(folder), count)
    return rows


class Bodies:
    """Export requests of one emitter, whose facts go on where the last request's ended."""

    def __init__(self) -> None:
        self._facts = list(_legs(LARGE))
        self._sent = 0

    def of(self, spans: int, count: int = ROUNDS) -> list[bytes]:
        """So many requests of so many spans."""
        request = message(*self._facts[:spans])
        return [self._next(request) for _ in range(count)]

    def _next(self, request: ExportTraceServiceRequest) -> bytes:
        for span in request.resource_spans[0].scope_spans[0].spans:
            self._sent += 1
            span.attributes[0].value.int_value = self._sent
            span.trace_id = (self._sent // 8 + 1).to_bytes(16, "big")
        body: bytes = request.SerializeToString()
        return body


def _legs(spans: int) -> Iterator[Fact]:
    """Facts of decode legs with scattered pages, as one emitter records them."""
    for seq in range(1, spans + 1):
        leg, ordinal = divmod(seq - 1, 8)
        pages = [7 * leg % 5000 + page + 3 * (page // 4) for page in range(40)]
        named: dict[int, tuple[str, dict[str, Any]]] = {
            0: ("pagewitness.request.admission", {"room": leg + 1, "rid": f"{leg:032x}"}),
            1: ("pagewitness.transfer", {"room": leg + 1, "pages": pages, "page_count": len(pages)}),
            2: ("pagewitness.transfer", {"transfer_status": "committed", "prompt_tokens": 600}),
            3: ("pagewitness.page.read", {"read_phase": "first", "read_tokens": 600, "row": leg % 64}),
            4: ("pagewitness.page.read", {"read_phase": "last", "read_tokens": 700, "row": leg % 64}),
            5: ("pagewitness.page.release", {"pages": pages, "written_start": 600, "written_end": 700}),
            6: ("pagewitness.response", {"gen_ai_usage_output_tokens": 100}),
            7: ("pagewitness.request.end", {"leg_facts": 8}),
        }
        name, attributes = named[ordinal]
        tenant = f"{leg % 50:032x}"
        yield fact(name, seq=seq, ordinal=ordinal + 1, uid=f"{leg + 1:032x}", tenant=tenant, **attributes)


def _per_span(spans: int, work: Callable[[bytes], object], requests: Sequence[bytes]) -> dict[str, float]:
    work(requests[0])  # once, to warm up
    start = process_time()
    for request in requests[1:]:
        work(request)
    return _figures(process_time() - start, spans * (len(requests) - 1))


def _figures(cpu: float, spans: int) -> dict[str, float]:
    return {"CPU of a span (us)": cpu / spans * 1e6, "spans a core second": spans / cpu}


def _floor(store: Store, bodies: Bodies) -> dict[str, float]:
    handle = store.handle()
    handle.command(
        f"CREATE TABLE typed AS evidence ENGINE = MergeTree ORDER BY (emitter, boot, seq) SETTINGS {DURABLE}"
    )
    (body,) = bodies.of(LARGE, 1)
    store.insert_otlp(body)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.native"
        handle.command(f"SELECT * FROM evidence INTO OUTFILE '{path}' FORMAT Native")
        insert = f"INSERT INTO typed FROM INFILE '{path}' SETTINGS async_insert = 0, max_threads = 1 FORMAT Native"
        return _per_span(LARGE, lambda _: handle.command(insert), [b""] * ROUNDS)


def _walk(body: bytes) -> list[dict[str, object]]:
    rows = []
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                row: dict[str, object] = {
                    "span": span.name,
                    "uid": span.trace_id.hex(),
                    "time": span.start_time_unix_nano,
                }
                for one in span.attributes:
                    value = getattr(one.value, one.value.WhichOneof("value") or "string_value")
                    row[one.key] = [each.int_value for each in value.values] if hasattr(value, "values") else value
                rows.append(row)
    return rows


def _together(store: Store, bodies: Bodies) -> dict[str, float]:
    """Requests that wait for each other are inserted together: the writer's own share."""
    writer = EvidenceWriter(store.handle())
    start = process_time()
    for _ in range(3):
        writer.insert(bodies.of(LARGE, SENDERS))
    return _figures(process_time() - start, 3 * SENDERS * LARGE)


def _received(host1: Sender, bodies: Bodies, folder: Path, senders: int) -> dict[str, float]:
    paths = []
    for number, body in enumerate(bodies.of(LARGE, 2 * ROUNDS)):
        path = folder / f"body-{senders}-{number}"
        path.write_bytes(gzip.compress(body, 1))
        paths.append(str(path))
    start = process_time()
    subprocess.run([sys.executable, "-c", _SENDER, host1.url, host1.token, str(senders), *paths], check=True)
    return _figures(process_time() - start, len(paths) * LARGE)
