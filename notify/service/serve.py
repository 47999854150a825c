"""Composes and runs the service; the command `pagewitness serve` is this function."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from contextlib import ExitStack
from dataclasses import dataclass

import structlog
import uvicorn
from fastapi import FastAPI

from collector.receiver import create_receiver
from collector.store import MigrationError, StoreBusy, open_store
from collector.tokens import TokenFile
from detectors.runner import Runner
from detectors.settings import DetectionSettings
from engine_hooks.identity import Key, KeyFormatError, parse_keys
from notify.api.auth import MIN_TOKEN_CHARACTERS
from notify.errors import CommandError, UsageError
from notify.names import TenantNames
from notify.service.app import create_app
from notify.service.detection import DetectionLoop
from notify.service.listen import open_socket, url_of
from notify.service.service_file import ServiceFile
from notify.settings import Settings

DRAIN_SECONDS = 10
"""How long requests under way may take to end once the service was told to stop."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the service knows and shows to nobody."""

    token: str
    pseudonym_keys: tuple[Key, ...]
    evidence_keys: tuple[Key, ...]


def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT, then end requests under way and close. Raises CommandError if it cannot start.

    Logs go where structlog is set up to put them: :mod:`notify.service.logs`.
    """
    log = structlog.get_logger("serve")
    known = _known(settings)
    data_dir = settings.data_dir
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = open_store(data_dir)
    except (StoreBusy, MigrationError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot use the data directory {data_dir}: {error.strerror}") from error
    with ExitStack() as closing:  # in reverse order: no answers from a store that is gone
        closing.callback(store.close)
        listening = closing.enter_context(open_socket(settings.host, settings.port))
        rules = DetectionSettings()
        detection = DetectionLoop(Runner(store.handle(), rules).run_once, settings.detect_every)
        app = create_app(
            create_receiver(store, TokenFile(data_dir)),
            store.handle(),
            token=known.token,
            pseudonym_keys=known.pseudonym_keys,
            evidence_keys=known.evidence_keys,
            names=TenantNames(settings.tenants_file, known.pseudonym_keys),
            detection=detection.state,
            silence=rules.silence,
        )
        detection.start()
        closing.callback(detection.stop)
        file = ServiceFile(url_of(listening), os.getpid(), known.token)
        closing.callback(file.remove, data_dir)
        file.write(data_dir)
        log.info("listening", url=file.url, data_dir=str(data_dir), keys=[key.id for key in known.pseudonym_keys])
        _run_until_told(app, listening)
        log.info("stopping")
    log.info("stopped")


def _known(settings: Settings) -> _Known:
    token = settings.token.get_secret_value() if settings.token else secrets.token_urlsafe(MIN_TOKEN_CHARACTERS)
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise UsageError(f"PAGEWITNESS_TOKEN needs at least {MIN_TOKEN_CHARACTERS} characters for a service")
    return _Known(
        token,
        _keys("PAGEWITNESS_PSEUDONYM_KEYS", settings.pseudonym_keys.get_secret_value()),
        _keys("PAGEWITNESS_EVIDENCE_KEY", settings.evidence_key.get_secret_value()),
    )


def _keys(setting: str, text: str) -> tuple[Key, ...]:
    try:
        return parse_keys(text)
    except KeyFormatError as error:
        raise UsageError(f"{setting}: {error}") from error


def _run_until_told(app: FastAPI, listening: socket.socket) -> None:
    """Serve until a signal, then let requests under way end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # its lines would hold tenant names
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    # uvicorn raises the signal that stopped it once more when it has drained. By then there is something left to
    # close, so the signal must not end the process.
    before = {number: signal.signal(number, _taken) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _taken(_number: int, _frame: object) -> None:
    """A signal that was obeyed already."""
