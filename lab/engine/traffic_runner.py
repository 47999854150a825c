"""Sends requests to a pair from inside its network namespace. Run by `lab.engine.client`, standard library only.

Reads one JSON object a line on stdin: ``{"id": .., "timeout": seconds, "calls": {name: {"url": .., "body": ..}}}``,
posts all calls of an object at once, each object in its own thread, and writes one line for it on stdout when all have
answered: ``{"id": .., "answers": {name: {"status": .., "body": ..}}}``. Status 0 is no answer; the body then says why.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

_output = threading.Lock()


def post(url: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
    """One call: HTTP status and decoded body."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return {"status": answer.status, "body": answer.read().decode(errors="replace")}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode(errors="replace")}
    except OSError as error:
        return {"status": 0, "body": repr(error)}


def run(job: dict[str, Any]) -> None:
    """All calls of one object, then its line."""
    answers: dict[str, Any] = {}

    def call(name: str, what: dict[str, Any]) -> None:
        answers[name] = post(what["url"], what["body"], job["timeout"])

    threads = [threading.Thread(target=call, args=item) for item in job["calls"].items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    line = json.dumps({"id": job["id"], "answers": answers})
    with _output:
        print(line, flush=True)


def main() -> None:
    """Until stdin ends; every line is answered before."""
    threads = []
    for line in sys.stdin:
        thread = threading.Thread(target=run, args=(json.loads(line),))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
