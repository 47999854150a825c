"""What is not in the contract never rests here: not in the store, not in its rejects, not in a log, not in a file."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from collector.store import Handle, Store
from tests.support.files import files_below, held_by
from tests.support.otlp import Fact, attribute, export, message
from tests.support.receivers import Sender

Made = Callable[..., Fact]

READ = "pagewitness.page.read"
CONFIG = "pagewitness.node.config"
MARKER = "QVXJKZ-planted-WJHQX"
"""Letters that hardly follow each other anywhere else, so that a compressed file has them in one piece."""


def places_of(marker: str, handle: Handle, data_dir: Path) -> list[str]:
    """Where the marker is: the tables of the database, and the files below the data directory."""
    tables = handle.query(
        "SELECT name FROM system.tables "
        "WHERE database = currentDatabase() AND engine NOT IN ('Null', 'MaterializedView')"
    )
    count = "SELECT count() FROM {} AS t WHERE positionCaseInsensitive(toString(tuple(t.*)), {{marker:String}}) > 0"
    found = [table for (table,) in tables if handle.query(count.format(table), {"marker": marker}) != [(0,)]]
    return [*found, *(str(path) for path in files_below(data_dir) if marker.encode() in held_by(path))]


@pytest.fixture
def logs() -> Iterator[list[object]]:
    """What is logged meanwhile."""
    with structlog.testing.capture_logs() as entries:
        yield entries  # type: ignore[misc]


def everywhere(made: Made) -> bytes:
    """A request of one span that has the marker wherever OTLP has room for words, but for the contract's attributes."""
    request = message(made(READ, extra={MARKER: 1, "somebody.elses": MARKER, "gen_ai.prompt": [MARKER]}))
    group = request.resource_spans[0]
    group.schema_url = MARKER
    group.resource.attributes.append(attribute("resource.extra", MARKER))
    scope = group.scope_spans[0]
    scope.schema_url = scope.scope.name = scope.scope.version = MARKER
    scope.scope.attributes.append(attribute(MARKER, MARKER))
    span = scope.spans[0]
    span.trace_state = MARKER
    span.status.CopyFrom(Status(message=MARKER, code=Status.STATUS_CODE_ERROR))
    event = span.events.add(name=MARKER)
    event.attributes.append(attribute("text", MARKER))
    link = span.links.add(trace_state=MARKER)
    link.attributes.append(attribute("text", MARKER))
    body: bytes = request.SerializeToString()
    return body


def test_the_search_finds_what_is_stored(store: Store, handle: Handle, made: Made) -> None:
    marker = "ZKQWVH-stored-GXQJZ"
    store.insert_otlp(export(made(CONFIG, engine_version=marker)))
    found = places_of(marker, handle, store.data_dir)
    assert "evidence" in found
    assert any(place.endswith(".bin") for place in found)


def test_of_a_good_span_only_the_attributes_of_the_contract_are_stored(
    host1: Sender, store: Store, handle: Handle, made: Made, logs: list[object]
) -> None:
    response = host1.post(everywhere(made))
    assert response.status_code == 200
    assert b"1 spans stored without attributes" in response.content
    assert MARKER.encode() not in response.content
    assert logs
    assert MARKER not in repr(logs)
    assert places_of(MARKER, handle, store.data_dir) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"extra": {"pagewitness.read.phase": MARKER}},
        {"extra": {"pagewitness.read.tokens": MARKER}},
        {"extra": {"tenant.id": MARKER}},
        {"extra": {"pagewitness.row": [MARKER]}},
        {"without": ["tenant.id"], "extra": {MARKER: MARKER}},
    ],
    ids=["a word", "text for a number", "a tenant", "a list", "a missing tenant"],
)
def test_of_a_bad_span_only_the_reason_is_stored(
    bad: dict[str, object], host1: Sender, store: Store, handle: Handle, made: Made, logs: list[object]
) -> None:
    response = host1.post(export(made(READ, **bad)))
    assert response.status_code == 200
    assert MARKER.encode() not in response.content
    assert logs
    assert MARKER not in repr(logs)
    assert places_of(MARKER, handle, store.data_dir) == []


def test_of_an_unknown_span_only_that_it_came_is_stored(
    host1: Sender, store: Store, handle: Handle, made: Made, logs: list[object]
) -> None:
    request = message(made(READ))
    request.resource_spans[0].scope_spans[0].spans[0].name = MARKER
    response = host1.post(request.SerializeToString())
    assert MARKER.encode() not in response.content
    assert logs
    assert MARKER not in repr(logs)
    assert places_of(MARKER, handle, store.data_dir) == []


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (MARKER.encode(), {}),
        (MARKER.encode(), {"Content-Encoding": "gzip"}),
        (gzip.compress(MARKER.encode()), {"Content-Encoding": "gzip"}),
        (b"", {"Content-Type": MARKER}),
        (b"", {"Content-Encoding": MARKER}),
        (b"", {"Authorization": f"Bearer {MARKER}"}),
    ],
    ids=["no protobuf", "no gzip", "gzip of something", "content type", "encoding", "token"],
)
def test_a_refusal_does_not_repeat_what_was_sent(
    body: bytes, headers: dict[str, str], host1: Sender, store: Store, handle: Handle, logs: list[object]
) -> None:
    response = host1.post(body, headers)
    assert response.status_code in (400, 401, 415)
    assert MARKER.encode() not in response.content
    assert logs
    assert MARKER not in repr(logs)
    assert places_of(MARKER, handle, store.data_dir) == []


def test_a_request_does_not_touch_the_disk_before_it_is_judged(
    store: Store, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "there is no such folder"))
    assert store.insert_otlp(export(made(READ))).stored == 1
