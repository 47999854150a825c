"""A recorded run on disk: load it, or write one. `README.md` beside this file describes the files."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

FORMAT = 1
"""Version of the files' layout."""

EMITTER_ATTRIBUTE = "service.instance.id"


class CaptureError(Exception):
    """A capture is missing, damaged, or of a layout that this version does not read."""


@dataclass(frozen=True, slots=True)
class Body:
    """One request body as the agent posted it; `content_encoding` is empty where it was not compressed."""

    data: bytes
    content_type: str
    content_encoding: str = ""

    def message(self) -> ExportTraceServiceRequest:
        """The OTLP message in it. Raises CaptureError for an encoding that the agent never uses."""
        if self.content_encoding not in ("", "gzip"):
            raise CaptureError(
                f"a body is encoded as {self.content_encoding!r}; the agent posts gzip or plain protobuf"
            )
        plain = gzip.decompress(self.data) if self.content_encoding else self.data
        message = ExportTraceServiceRequest()
        message.ParseFromString(plain)
        return message

    def emitters(self) -> set[str]:
        """The emitters whose facts it carries."""
        return {
            attribute.value.string_value
            for resource in self.message().resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == EMITTER_ATTRIBUTE
        }


@dataclass(frozen=True, slots=True)
class Capture:
    """One recorded run. `manifest`, `truth` and `traffic` are the JSON objects of the files."""

    name: str
    manifest: dict[str, Any]
    bodies: tuple[Body, ...]
    truth: dict[str, Any]
    traffic: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Capture:
        """Read a capture. Raises CaptureError when a file is missing, damaged or of another layout."""
        manifest = _object(folder / "manifest.json")
        if manifest.get("format") != FORMAT:
            raise CaptureError(f"{folder} has format {manifest.get('format')!r}; this version reads {FORMAT}")
        bodies = tuple(_bodies(folder / "bodies.bin", manifest["bodies"]))
        return cls(folder.name, manifest, bodies, _object(folder / "truth.json"), _object(folder / "traffic.json"))

    def save(self, folder: Path) -> None:
        """Write it, making the folder. What it says about its bodies is computed here."""
        folder.mkdir(parents=True, exist_ok=True)
        listed = [
            {
                "length": len(body.data),
                "sha256": hashlib.sha256(body.data).hexdigest(),
                "content_type": body.content_type,
                "content_encoding": body.content_encoding,
            }
            for body in self.bodies
        ]
        (folder / "bodies.bin").write_bytes(b"".join(body.data for body in self.bodies))
        _write(folder / "truth.json", self.truth)
        _write(folder / "traffic.json", self.traffic)
        _write(folder / "manifest.json", self.manifest | {"format": FORMAT, "bodies": listed})

    def emitters(self) -> list[str]:
        """Every emitter that posted, sorted: a replay needs a token for each."""
        return sorted({emitter for body in self.bodies for emitter in body.emitters()})


def _bodies(file: Path, listed: list[dict[str, Any]]) -> Iterator[Body]:
    data, done = _read(file), 0
    for number, entry in enumerate(listed, start=1):
        part = data[done : done + entry["length"]]
        done += entry["length"]
        if hashlib.sha256(part).hexdigest() != entry["sha256"]:
            raise CaptureError(f"body {number} in {file} is damaged: take the file from the repository again")
        yield Body(part, entry["content_type"], entry["content_encoding"])
    if done != len(data):
        raise CaptureError(f"{file} has {len(data) - done} bytes that the manifest does not list")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise CaptureError(f"there is no capture in {file.parent}: {file.name} is missing") from None


def _object(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read(file))
    except json.JSONDecodeError as error:
        raise CaptureError(f"{file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise CaptureError(f"{file} holds no JSON object")
    return value


def _write(file: Path, value: dict[str, Any]) -> None:
    file.write_text(dumps(value))


def dumps(value: Any, indent: str = "") -> str:
    """JSON that is read by people and compared by git: a line for each small object, the rest indented by one."""
    inner = indent + " "
    if isinstance(value, dict) and value and not _small(value):
        items = [f"{inner}{json.dumps(key)}: {dumps(item, inner).strip()}" for key, item in value.items()]
        return indent + "{\n" + ",\n".join(items) + f"\n{indent}}}" + ("" if indent else "\n")
    if isinstance(value, list) and value and not _small(value):
        return (
            f"{indent}[\n"
            + ",\n".join(dumps(item, inner) for item in value)
            + f"\n{indent}]"
            + ("" if indent else "\n")
        )
    return indent + json.dumps(value, ensure_ascii=False) + ("" if indent else "\n")


def _small(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value
    return not any(isinstance(part, (dict, list)) and part for part in parts) and len(json.dumps(value)) <= 400
