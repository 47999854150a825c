"""How many requests an engine says that it finished: a count that the hooks have no part in.

SGLang counts in its HTTP process and shows the count with its other metrics (`sglang:num_requests_total`, with
`--enable-metrics`). Where a setting names the addresses, the agent reads them from a thread of its own, so that a slow
engine never holds up the draining, and puts the count into its word on the boot: if more requests were finished than
legs were recorded, the hooks missed some.
"""

from __future__ import annotations

import http.client
import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from urllib.parse import SplitResult, urlsplit

_log = logging.getLogger(__name__)
COUNTER = "sglang:num_requests_total"
"""Requests that reached their end in the tokenizer process, of any outcome. Not in it: health checks, prompts that the
tokenizer refused, and requests that were aborted before the scheduler took them."""

READ_SECONDS = 10.0
TIMEOUT_SECONDS = 2.0
_MOST_BYTES = 8 << 20
_MOST = 1 << 62
_KEPT = 16
_SERVER = re.compile(r".*/(?:prefill|decode|unified)-(\d{1,5})-tp0(?:-pp0)?\Z")
"""Emitters that an engine's count belongs to: rank 0 of a node, by the port in its name. Replicas (`dp0`) share one
count, and none of them can be held against it."""

Sample = tuple[int, int]
"""(unix ns before the count was asked for, requests)"""


class EngineCounts:
    """Reads the counters of the engines of this host, and says which count belongs to which boot."""

    def __init__(self, urls: Sequence[str], clock: Callable[[], int] = time.time_ns) -> None:
        self._targets = {_port(urlsplit(url)): urlsplit(url) for url in urls}
        self._clock = clock
        self._samples: dict[int, list[Sample]] = {port: [] for port in self._targets}  # lists are replaced, not changed
        self._known_since: dict[str, int] = {}  # boot -> when it was first asked about
        self._last: dict[str, int] = {}  # boot -> count that was given out last
        self._failing: set[int] = set()

    def start(self, stop: threading.Event) -> None:
        """Read on, on a thread that ends with the process or with `stop`."""
        if self._targets:
            threading.Thread(target=self._run, args=(stop,), name="engine-counts", daemon=True).start()

    def requests(self, emitter: str, boot: str, attested_ns: int, *, alive: bool) -> int | None:
        """The count of this boot's engine, as it was at some time before `attested_ns`; None where it is not known.

        So every leg that the count includes was recorded before that time, if it was recorded at all. Once the process
        is not `alive`, its port may be another's: the count that was known by then stays.
        """
        match = _SERVER.match(emitter)
        if match is None or int(match[1]) not in self._samples:
            return None
        since = self._known_since.setdefault(boot, self._clock())
        if alive:
            fitting = [count for at, count in self._samples[int(match[1])] if since <= at <= attested_ns]
            if fitting:
                self._last[boot] = fitting[-1]
        return self._last.get(boot)

    def forget(self, boot: str) -> None:
        """The boot is over and told."""
        self._known_since.pop(boot, None)
        self._last.pop(boot, None)

    def read_all(self) -> None:
        """Ask every engine once."""
        for port, target in self._targets.items():
            at = self._clock()
            try:
                count = parse(_fetch(target))
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._samples[port] = []  # it may be another engine that answers next
                if port not in self._failing:
                    _log.warning("no count of requests from %s: %s", target.geturl(), error)
                self._failing.add(port)
                continue
            self._failing.discard(port)
            before = self._samples[port]
            kept = before if not before or before[-1][1] <= count else []  # a count that fell is another life's
            self._samples[port] = [*kept[-_KEPT:], (at, count)]

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.read_all()
            stop.wait(READ_SECONDS)


def parse(text: str) -> int:
    """The count in a page of metrics (Prometheus text format), over all its labels. Raises ValueError without one."""
    total, found = 0.0, False
    for line in text.splitlines():
        name, _, rest = line.partition("{")
        if name == COUNTER:
            value = rest.rpartition("} ")[2]
        elif line.startswith(COUNTER + " "):
            value = line[len(COUNTER) + 1 :]
        else:
            continue
        total += float(value.split()[0])
        found = True
    if not found:
        raise ValueError(f"it shows no {COUNTER}; start the engine with --enable-metrics, and send it a request")
    if not 0 <= total < _MOST:
        raise ValueError(f"its {COUNTER} is no count")
    return int(total)


def _port(target: SplitResult) -> int:
    return target.port or (443 if target.scheme == "https" else 80)


def _fetch(target: SplitResult) -> str:
    kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
    connection = kind(target.hostname or "", target.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", target.path if target.path not in ("", "/") else "/metrics")
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ValueError(f"it answered HTTP {response.status}")
        return response.read(_MOST_BYTES).decode("utf-8", "replace")
    finally:
        connection.close()
