"""`pagewitness-hooks doctor`: what on this host would keep evidence from being recorded or posted."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from engine_hooks.ring_format import SUFFIX, RingError
from engine_hooks.ring_reader import RingReader
from engine_hooks.settings import SETTINGS, Settings, SettingsError, load
from engine_hooks.version import VERSION

OK, WARN, BLIND, FAIL = "ok", "warn", "blind", "fail"
_OTEL = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-common")
_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `advice` says what to do where it is not ok.

    `status` is ok, warn (worth a look), blind (evidence will be incomplete here) or fail (nothing works like this).
    """

    name: str
    status: str
    detail: str
    advice: str = ""


def examine(environ: Mapping[str, str], *, ask_receiver: bool = True) -> list[Check]:
    """Every check, in the order in which a fault would bite. Changes nothing on the host."""
    checks = [*_versions()]
    try:
        settings = load(environ)
    except SettingsError as error:
        checks += [Check("settings", FAIL, fault, "correct this variable") for fault in error.faults]
        return checks
    checks += _keys(settings)
    checks.append(_directory("ring directory", settings.ring_dir, settings.ring_bytes, "PAGEWITNESS_RING_DIR"))
    checks += _memory_backed(settings.ring_dir)
    checks.append(_directory("spool directory", settings.spool_dir, settings.spool_bytes, "PAGEWITNESS_SPOOL_DIR"))
    checks += _rings(settings.ring_dir)
    if ask_receiver:
        checks.append(_receiver(settings))
    return checks


def _versions() -> Iterator[Check]:
    yield Check("pagewitness-hooks", OK, VERSION)
    yield Check("python", OK, f"{platform.python_version()} ({sys.executable})")
    for package in _OTEL:
        version = _version(package)
        if version is None:
            yield Check(package, FAIL, "not installed", "pip install pagewitness-hooks")
        else:
            yield Check(package, OK, version)


def _keys(settings: Settings) -> Iterator[Check]:
    switch = next(one.name for one in SETTINGS if one.field == "hooks")
    yield Check("hooks", OK if settings.hooks else BLIND, "on" if settings.hooks else "off", f"{switch} keeps them out")
    if settings.mac_keys:
        yield Check("MAC keys", OK, f"ids {', '.join(key.id for key in settings.mac_keys)}")
    else:
        yield Check("MAC keys", BLIND, "none", "set PAGEWITNESS_MAC_KEYS: every request is unattributed without")
    if settings.evidence_key:
        yield Check("evidence key", OK, f"id {settings.evidence_key.id}")
    else:
        yield Check("evidence key", FAIL, "none", "set PAGEWITNESS_EVIDENCE_KEY: the hooks record nothing without")


def _directory(name: str, path: Path, needed: int, setting: str) -> Check:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(name, FAIL, f"{existing} is not writable for this user", f"change its rights or {setting}")
    usage = os.statvfs(existing)
    free = usage.f_bavail * usage.f_frsize
    if free < needed:
        return Check(
            name, FAIL, f"{existing} has {free >> 20} MiB free, {needed >> 20} MiB are wanted", f"change {setting}"
        )
    if existing == path:
        status = path.stat()
        if stat.S_IMODE(status.st_mode) & 0o022:
            return Check(
                name, FAIL, f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})",
                "chmod go-w it: whoever can write here can forge evidence",
            )  # fmt: skip
        if status.st_uid not in (os.getuid(), 0):
            return Check(name, WARN, f"{path} belongs to user {status.st_uid}", "run engine and agent as one user")
    missing = "" if existing == path else ", made at first use"
    return Check(name, OK, f"{path} ({free >> 20} MiB free{missing})")


def _memory_backed(path: Path) -> Iterator[Check]:
    kind = _file_system(next(parent for parent in (path, *path.parents) if parent.exists()))
    if kind and kind not in _MEMORY_FILE_SYSTEMS:
        yield Check(
            "ring file system", WARN, f"{path} is on {kind}",
            "put PAGEWITNESS_RING_DIR on /dev/shm or /run: on a disk, recording a fact can wait for I/O",
        )  # fmt: skip


def _rings(directory: Path) -> Iterator[Check]:
    try:
        paths = sorted(directory.glob(f"*{SUFFIX}"))
    except OSError as error:
        yield Check("rings", FAIL, f"cannot list {directory}: {error.strerror}", "change its rights")
        return
    if not paths:
        yield Check("rings", OK, f"none in {directory}")
    for path in paths:
        try:
            reader = RingReader.open(path)
        except (RingError, OSError) as error:
            yield Check("ring", FAIL, f"{path.name}: {error}", "the agent sets a damaged ring aside")
            continue
        state = "alive" if reader.writer_alive() else "closed" if reader.closed else "crashed"
        lost = reader.drops + reader.lost
        yield Check(
            "ring", WARN if lost or reader.hook_errors else OK,
            f"{reader.emitter}: {state}, {reader.fill:.0%} full, acknowledged up to {reader.acked}, "
            f"{lost} lost, {reader.hook_errors} hook errors",
            "evidence of this boot has holes; is the agent running, is the ring large enough?"
            if lost or reader.hook_errors else "",
        )  # fmt: skip
        reader.close()


def _receiver(settings: Settings) -> Check:
    try:
        from engine_hooks.transport import ExportError, Outcome, Transport
    except ImportError as error:
        return Check("receiver", FAIL, f"the agent cannot post from here: {error}", "pip install pagewitness-hooks")
    try:
        transport = Transport(settings.export_url, settings.export_token_file, timeout=3.0)
    except ExportError as error:
        return Check("receiver", FAIL, str(error), "correct this setting")
    answer = transport.post(b"")
    transport.close()
    if answer.outcome is Outcome.OK:
        return Check("receiver", OK, f"{transport.url} takes exports")
    if answer.outcome is Outcome.DENIED:
        return Check("receiver", FAIL, f"{transport.url} denies the token ({answer.detail})", "mint a new token")
    return Check("receiver", WARN, answer.detail, "start it, or correct PAGEWITNESS_EXPORT_URL")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _file_system(path: Path) -> str:
    """Type of the file system that holds a path; '' where the kernel does not say."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return ""
    real = path.resolve()
    holding = [(len(Path(mount[1]).parts), mount[2]) for mount in mounts if real.is_relative_to(mount[1])]
    return max(holding, default=(0, ""))[1]
