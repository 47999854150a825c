"""Sends requests to a pair from inside its network namespace. Run by `lab.engine.client`, standard library only.

Reads one JSON object a line on stdin: ``{"id": .., "timeout": seconds, "calls": {name: {"url": .., "body": ..}}}``,
posts all calls of an object at once, each object in its own thread, and writes one line for it on stdout when all have
answered: ``{"id": .., "answers": {name: {"status": .., "body": ..}}}``. Status 0 is no answer; the body then says why.

``{"hang_up": id}`` closes the connections of that object at once, as a client that goes away does.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

_output = threading.Lock()


class Job:
    """All calls of one object, and their connections."""

    def __init__(self, what: dict[str, Any]) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._connections: list[http.client.HTTPConnection] = []
        self._gone = False

    def run(self) -> None:
        """Post every call, then write the line."""
        answers: dict[str, Any] = {}

        def call(name: str, url: str, body: Any) -> None:
            answers[name] = self._post(url, body)

        calls = self._what["calls"].items()
        threads = [threading.Thread(target=call, args=(name, each["url"], each["body"])) for name, each in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        line = json.dumps({"id": self._what["id"], "answers": answers})
        with _output:
            print(line, flush=True)

    def hang_up(self) -> None:
        """Close every connection, and open none any more."""
        with self._lock:
            self._gone = True
            for connection in self._connections:
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _post(self, url: str, body: Any) -> dict[str, Any]:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=self._what["timeout"])
        try:
            with self._lock:
                if self._gone:
                    return {"status": 0, "body": "hung up before it was sent"}
                connection.connect()
                self._connections.append(connection)
            connection.request("POST", parts.path, json.dumps(body).encode(), {"content-type": "application/json"})
            answer = connection.getresponse()
            return {"status": answer.status, "body": answer.read().decode(errors="replace")}
        except (OSError, http.client.HTTPException) as error:
            return {"status": 0, "body": repr(error)}
        finally:
            with self._lock:
                if connection in self._connections:
                    self._connections.remove(connection)
            connection.close()


def main() -> None:
    """Until stdin ends; every line is answered before."""
    jobs: dict[int, Job] = {}
    threads = []
    for line in sys.stdin:
        what = json.loads(line)
        if "hang_up" in what:
            jobs[what["hang_up"]].hang_up()
            continue
        job = jobs[what["id"]] = Job(what)
        threads.append(threading.Thread(target=job.run))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
